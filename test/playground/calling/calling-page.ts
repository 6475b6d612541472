import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as rest } from 'node:timers/promises'
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core'
import { espeakVoice, joined } from '../../../plugins/calls/speech/command.ts'
import { wavOf } from '../../../plugins/calls/speech/wav.ts'
import type { AgentFrame } from '../../../plugins/calls/talking/frames.ts'
import { buildStudio, type HeardWord, type Studio } from './studio.ts'

/** How long what a page will show is waited for, and how often it is looked at. */
const patience = { mostMs: 90_000, everyMs: 50 }

/** How a Chromium is started that may call this machine, and is not muted: what it plays is measured. */
const launchOptions = (program: string, microphone?: string) => ({
  executablePath: program.includes('/') ? program : `/usr/bin/${program}`,
  ignoreDefaultArgs: ['--mute-audio'],
  args: [
    ...['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'],
    ...['--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream'],
    ...['--allow-loopback-in-peer-connection', '--autoplay-policy=no-user-gesture-required'],
    ...(microphone === undefined ? [] : [`--use-file-for-fake-audio-capture=${microphone}%noloop`]),
  ],
})

/** A Chromium for calls; `microphone`: the WAV file that its microphone hears. */
export const launchCaller = (program: string, microphone?: string): Promise<Browser> =>
  chromium.launch(launchOptions(program, microphone))

/** A Chromium of which a test may stop or kill all processes. */
export async function launchMortal(program: string) {
  const server = await chromium.launchServer(launchOptions(program))
  const browser = await chromium.connect(server.wsEndpoint())
  const first = server.process().pid!
  return {
    browser,
    signal(name: NodeJS.Signals) {
      for (const one of processesOf(first)) process.kill(one, name)
    },
    close: () => server.kill(),
  }
}

/** A process and all those below it. */
function processesOf(first: number): number[] {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc').filter((one) => /^\d+$/.test(one)))
    try {
      const [, parent = ''] = readFileSync(`/proc/${name}/stat`, 'latin1').split(/\) \w /)
      parents.set(Number(name), Number.parseInt(parent, 10))
    } catch {
      // It has ended meanwhile.
    }
  const found = [first]
  for (const one of found)
    for (const [child, parent] of parents) if (parent === one) found.push(child)
  return found
}

/** What espeak-ng says as a WAV file, from its first sound to its last, at most so long. */
export async function wavOfSpeech(text: string, mostSeconds = 60): Promise<string> {
  const pieces: Int16Array[] = []
  for await (const { pcm } of espeakVoice().speak(text, { signal: AbortSignal.timeout(20_000) }))
    pieces.push(pcm)
  const pcm = joined(pieces)
  const rate = 22_050
  const isLoud = (sample: number) => Math.abs(sample) > 800
  const from = pcm.findIndex(isLoud)
  const to = Math.min(pcm.findLastIndex(isLoud), from + mostSeconds * rate)
  return wavOf({ rate, pcm: pcm.slice(from, to) }).toString('base64')
}

/** Somebody at the view Call of a playground, with a studio in place of a microphone and a loudspeaker. */
export class CallingPage {
  readonly page: Page
  /** The headers of the last request by which the page said whose it is. */
  headers: Record<string, string> = {}

  static async open(
    browser: Browser,
    url: string,
    prepare: (context: BrowserContext) => Promise<unknown> = async () => {},
  ): Promise<CallingPage> {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
    context.setDefaultTimeout(patience.mostMs)
    await context.addInitScript(buildStudio)
    await prepare(context)
    const page = await context.newPage()
    const calling = new CallingPage(page)
    await page.goto(`${url}/playground/#/calls`)
    await page.getByRole('heading', { name: 'Where the sound goes' }).waitFor()
    return calling
  }

  private constructor(page: Page) {
    this.page = page
    page.on('request', (request) => {
      const { authorization } = request.headers()
      if (authorization !== undefined) this.headers = request.headers()
    })
  }

  /** Calls, and waits until the agent listens. */
  async call(button = 'Call'): Promise<void> {
    await this.page.getByRole('button', { name: button, exact: true }).click()
    await this.page.getByText('Listening.').waitFor()
  }

  async type(words: string): Promise<void> {
    await this.page.getByLabel('Say it in writing').fill(words)
    await this.page.keyboard.press('Enter')
  }

  async hangUp(): Promise<void> {
    await this.page.getByRole('button', { name: 'Hang up' }).click()
    await this.page.getByText('You hung up.').waitFor()
  }

  /** Works in the studio of the page. */
  studio<Given, Found>(
    work: (studio: Studio, given: Given) => Found | Promise<Found>,
    given: Given,
  ): Promise<Found> {
    const source = `(${work.toString()})(globalThis.studio, ${JSON.stringify(given)})`
    return this.page.evaluate<Found>(source)
  }

  /** Plays sound into the microphone. Resolves to when it began. */
  play(wav: string, volume = 1): Promise<number> {
    return this.studio((studio, [file, loud]) => studio.play(file, loud), [wav, volume] as [
      string,
      number,
    ])
  }

  now(): Promise<number> {
    return this.studio((studio) => studio.now(), null)
  }

  words(since = 0): Promise<HeardWord[]> {
    return this.studio((studio, from) => studio.words(from), since)
  }

  /** Waits until so many words were heard since then. */
  async hears(words: number, since = 0): Promise<void> {
    await found(
      `${words} words`,
      async () => (await this.words(since)).length >= words || undefined,
    )
  }

  /** The last moment at which something was heard before a silence of so many seconds. */
  silentFrom(since: number, seconds: number): Promise<number> {
    return found('silence', () =>
      this.studio((studio, [from, long]) => studio.silentFrom(from, long), [since, seconds] as [
        number,
        number,
      ]),
    )
  }

  /** The frames of a type that the agent sent, with the time at which each came. */
  async frames<Type extends AgentFrame['type']>(type: Type) {
    const all = await this.studio((studio) => studio.frames, null)
    return all
      .map(({ at, text }) => ({ at, ...(JSON.parse(text) as AgentFrame) }))
      .filter(
        (one): one is { at: number } & Extract<AgentFrame, { type: Type }> => one.type === type,
      )
  }

  close(): Promise<void> {
    return this.page.context().close()
  }
}

/** Waits until something is there. */
async function found<Found>(what: string, look: () => Promise<Found | undefined>): Promise<Found> {
  for (const until = Date.now() + patience.mostMs; Date.now() < until;) {
    const one = await look()
    if (one !== undefined && one !== null) return one
    await rest(patience.everyMs)
  }
  throw new Error(`No ${what} in ${patience.mostMs} ms.`)
}

/** The value below which so large a share of all lies. */
export const quantile = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) * share)] ?? NaN
