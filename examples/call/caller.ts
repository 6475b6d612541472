import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { chromium, type Browser, type Page } from 'playwright-core'

/** The page keeps its connections here, so that what it sent can be counted; and since when times count. */
interface Watched {
  peers: RTCPeerConnection[]
  openedAt?: number
}

/** What the page shows of a call at one moment. */
interface Shown {
  readonly atMs: number
  readonly state: string
  readonly captions: readonly string[]
  readonly agent: number
}

const loud = 0.05
/** How often the page is looked at, and for how long the oracle is silent when it has said everything. */
const lookMs = 50
const quietMs = 2_500
/** How long the page may take to be built. */
const mostWaitMs = 60_000

/** Chromium on this machine; undefined where there is none. */
export function chromiumHere(): string | undefined {
  const { CHROMIUM, PATH = '' } = process.env
  const names = ['chromium', 'chromium-browser', 'google-chrome']
  const places = PATH.split(delimiter).flatMap((folder) => names.map((name) => join(folder, name)))
  return CHROMIUM ?? places.find((place) => existsSync(place))
}

/** Somebody who calls from the view Call of a server's playground, with a file in place of a microphone. */
export class Caller {
  readonly whereSoundGoes: readonly string[]
  /** To whom the server wants consent. */
  readonly consent: string | undefined
  /** Whether the server, or a service of it, turns speech into text. */
  readonly isHeard: boolean
  readonly #browser: Browser
  readonly #page: Page
  sent = 0
  received = 0
  cipher = ''

  static async open(options: {
    readonly program: string
    readonly file: string
    readonly url: string
  }): Promise<Caller> {
    const browser = await chromium.launch({
      executablePath: options.program,
      ignoreDefaultArgs: ['--mute-audio'],
      args: [
        ...['--no-sandbox', '--disable-gpu', '--autoplay-policy=no-user-gesture-required'],
        ...['--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream'],
        `--use-file-for-fake-audio-capture=${options.file}%noloop`,
        '--allow-loopback-in-peer-connection',
      ],
    })
    try {
      await served(`${options.url}/playground`)
      const page = await browser.newPage()
      await page.addInitScript(watch)
      const about = page.waitForResponse((one) => new URL(one.url()).pathname === '/calls')
      await page.goto(`${options.url}/playground/#/calls`)
      const { consent, hearing } = await (await about).json()
      const where = page.getByRole('region', { name: 'Where the sound goes' })
      await where.waitFor()
      const lines = await where.getByRole('listitem').allInnerTexts()
      return new Caller(browser, page, lines, consent, hearing.where !== 'device')
    } catch (error) {
      await browser.close()
      throw error
    }
  }

  private constructor(
    browser: Browser,
    page: Page,
    whereSoundGoes: readonly string[],
    consent: string | undefined,
    isHeard: boolean,
  ) {
    this.#browser = browser
    this.#page = page
    this.whereSoundGoes = whereSoundGoes
    this.consent = consent
    this.isHeard = isHeard
  }

  async call(): Promise<void> {
    const page = this.#page
    if (this.isHeard) {
      // The checkbox names whoever gets sound or words.
      for (const box of await page.getByRole('checkbox', { name: 'I allow that' }).all())
        await box.check()
      await page.getByRole('button', { name: 'Call', exact: true }).click()
    } else {
      await page.getByRole('button', { name: 'Call without a microphone' }).click()
      await page.evaluate(() => {
        const seen = globalThis as unknown as Watched
        seen.openedAt = performance.now()
      })
    }
    await page.getByRole('button', { name: 'Hang up' }).waitFor()
    await page.getByText('Listening.').waitFor()
  }

  async type(words: string): Promise<void> {
    await this.#page.getByLabel('Say it in writing').fill(words)
    await this.#page.keyboard.press('Enter')
  }

  /** Tells each caption with its time since the microphone, or the call, opened, until the oracle has answered; when it was first heard. */
  async listen(
    mostMs: number,
    tell: (ms: number, line: string) => void,
  ): Promise<{ readonly answeredMs: number | undefined }> {
    const told = new Set<string>()
    let answeredMs: number | undefined
    let soundAt = performance.now()
    for (const until = performance.now() + mostMs; performance.now() < until;) {
      const { atMs, state, captions, agent } = await this.#shown()
      for (const [number, line] of captions.entries())
        if (!told.has(`${number} ${line}`)) tell(atMs, line)
      captions.forEach((line, number) => told.add(`${number} ${line}`))
      const isAnswered = captions.some((line) => line.startsWith('Oracle:'))
      if (agent > loud && answeredMs === undefined)
        tell((answeredMs = atMs), 'The oracle is heard.')
      if (agent > loud || !isAnswered || !state.startsWith('Listening')) soundAt = performance.now()
      if (performance.now() - soundAt > quietMs) break
      await new Promise((resolve) => setTimeout(resolve, lookMs))
    }
    await this.#count()
    await this.#page.getByRole('button', { name: 'Hang up' }).click()
    return { answeredMs }
  }

  close(): Promise<void> {
    return this.#browser.close()
  }

  #shown(): Promise<Shown> {
    return this.#page.evaluate(() => {
      const { openedAt = performance.now() } = globalThis as unknown as Watched
      const lines = document.querySelectorAll<HTMLElement>('[role=log] p')
      const meter = document.querySelector<HTMLMeterElement>('meter[aria-label*="oracle"]')
      return {
        atMs: performance.now() - openedAt,
        state: document.querySelector('[role=status]')?.textContent ?? '',
        captions: [...lines].map((line) => line.innerText),
        agent: meter?.value ?? 0,
      }
    })
  }

  async #count(): Promise<void> {
    const counted = await this.#page.evaluate(async () => {
      const found = { sent: 0, received: 0, cipher: '' }
      for (const peer of (globalThis as unknown as Watched).peers)
        for (const one of (await peer.getStats()).values()) {
          if (one.type === 'transport') found.cipher = `${one.dtlsState}, ${one.srtpCipher}`
          if (one.type === 'outbound-rtp') found.sent += one.bytesSent
          if (one.type === 'inbound-rtp') found.received += one.bytesReceived
        }
      return found
    })
    Object.assign(this, counted)
  }
}

/** Resolves once the server has the page: in a fresh checkout it is built first, which takes some seconds. */
async function served(url: string): Promise<void> {
  for (const until = performance.now() + mostWaitMs; ;) {
    const response = await fetch(url).catch((cause: unknown) => {
      throw new Error(`No server answers at ${new URL(url).origin}: start one by "npm start".`, {
        cause,
      })
    })
    await response.body?.cancel()
    if (response.ok) return
    if (response.status !== 503 || performance.now() > until)
      throw new Error(`${url} answers ${response.status}: the server has no playground.`)
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
}

/** Runs in the page: keeps its connections, and when its microphone opened. */
function watch(): void {
  const seen = globalThis as unknown as Watched & { RTCPeerConnection: typeof RTCPeerConnection }
  seen.peers = []
  seen.RTCPeerConnection = class extends RTCPeerConnection {
    constructor(configuration?: RTCConfiguration) {
      super(configuration)
      seen.peers.push(this)
    }
  }
  const { mediaDevices } = navigator
  const open = mediaDevices.getUserMedia.bind(mediaDevices)
  mediaDevices.getUserMedia = async (wanted) => {
    const stream = await open(wanted)
    seen.openedAt ??= performance.now()
    return stream
  }
}
