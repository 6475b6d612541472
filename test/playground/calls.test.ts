/// <reference path="../../plugins/calls/media/fvad.d.ts" />
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { scriptedModel, testApp, type ScriptedStep, type TestApp } from '#core/testing'
import calls from '../../plugins/calls/index.ts'
import { espeakVoice, joined } from '../../plugins/calls/speech/command.ts'
import { WavReader, wavOf } from '../../plugins/calls/speech/wav.ts'
import { Peer } from '../../plugins/calls/media/peer.ts'
import { answeredFingerprint, readOffer } from '../../plugins/calls/signalling/sdp.ts'
import playground from '../../plugins/playground/index.ts'
import { builtPage } from '../support/built-page.ts'
import { complaintsOf } from '../support/browser.ts'
import { root } from '../support/process.ts'
import { describeWith, isCommand } from '../support/services.ts'
import { launchCaller } from './calling/calling-page.ts'

interface Axe {
  run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }>
}
interface Seen {
  peers: RTCPeerConnection[]
  levels: number[]
}

const patient = { timeout: 60_000, interval: 50 }
const answer = 'It is sunny in Nairobi, and it stays warm until the evening.'
const long = Array.from(
  { length: 40 },
  (_, i) => `This is sentence number ${i + 1} of the answer.`,
).join(' ')

/** A page whose connections a test can look into, and that writes down how loud the oracle is. */
const watch = () => {
  const seen = globalThis as unknown as Seen & { RTCPeerConnection: typeof RTCPeerConnection }
  seen.peers = []
  seen.RTCPeerConnection = class extends RTCPeerConnection {
    constructor(configuration?: RTCConfiguration) {
      super(configuration)
      seen.peers.push(this)
    }
  }
  seen.levels = []
  setInterval(() => {
    const meter = document.querySelector<HTMLMeterElement>('meter[aria-label*="oracle"]')
    if (meter) seen.levels.push(meter.value)
  }, 50)
}

/** The text with another first letter. */
const other = (text: string) => (text.startsWith('A') ? 'B' : 'A') + text.slice(1)

/** How somebody in the middle answers a page. */
const spying = { place: { ports: [42_000, 42_099], isLocal: true }, silenceMs: 600 } as const

/** What the browser counts of the connections of the page. */
const counted = (page: Page) =>
  page.evaluate(async () => {
    const { peers } = globalThis as unknown as Seen
    const found = []
    for (const peer of peers)
      for (const one of (await peer.getStats()).values())
        if (one.type === 'transport')
          found.push({
            dtls: String(one.dtlsState),
            cipher: String(one.srtpCipher ?? ''),
            bytes: Number(one.bytesReceived),
          })
    return found
  })

/** What axe finds on a page. */
async function faultsOf(page: Page): Promise<string[]> {
  const axe = await readFile(join(root, 'node_modules/axe-core/axe.min.js'), 'utf8')
  await page.evaluate((source) => (0, eval)(source), axe).catch(() => page.evaluate(axe))
  return page.evaluate(async () => {
    const { violations } = await (globalThis as unknown as { axe: Axe }).axe.run()
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' | ')}`)
  })
}

const loudly = (page: Page) =>
  expect
    .poll(
      () => page.evaluate(() => Math.max(0, ...(globalThis as unknown as Seen).levels)),
      patient,
    )
    .toBeGreaterThan(0.1)
/** How many samples of 50 ms had sound in them. */
const loudSamples = (page: Page) =>
  page.evaluate(() => (globalThis as unknown as Seen).levels.filter((level) => level > 0.05).length)
const silently = (page: Page) =>
  expect
    .poll(
      () => page.evaluate(() => Math.max(...(globalThis as unknown as Seen).levels.slice(-20))),
      patient,
    )
    .toBeLessThan(0.01)

async function speech(text: string): Promise<Int16Array> {
  const pieces: Int16Array[] = []
  for await (const { pcm } of espeakVoice().speak(text, { signal: AbortSignal.timeout(20_000) }))
    pieces.push(pcm)
  return joined(pieces)
}

await describeWith('chromium', 'a call from the page', (program) => {
  if (!isCommand('espeak-ng') && !process.env.REQUIRE_ALL)
    return it.skip('needs espeak-ng: apt-get install espeak-ng', () => {})
  let app: TestApp
  let browser: Browser
  let folder: string
  const steps: ScriptedStep[] = []

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'calls-page-'))
    // Silence, a question, and silence: the microphone of the browser.
    const words = await speech('How is the weather in Nairobi today?')
    const rate = 22_050
    const microphone = joined([new Int16Array(rate * 5), words, new Int16Array(rate * 4)])
    await writeFile(join(folder, 'microphone.wav'), wavOf({ rate, pcm: microphone }))
    await builtPage()
    app = await testApp({
      plugins: [playground, calls],
      model: scriptedModel(
        Array.from({ length: 100 }, () => () => steps.shift() ?? 'Nothing more.'),
      ),
      env: {
        NODE_ENV: 'development',
        CALLS_PER_USER: '3',
        CALLS_HEARING: 'command',
        CALLS_HEARING_COMMAND: JSON.stringify([
          'sh',
          '-c',
          `cat > ${folder}/heard-$$.wav && echo "How is the weather in Nairobi today?"`,
        ]),
      },
    })
    browser = await launchCaller(program, join(folder, 'microphone.wav'))
  }, 240_000)
  afterAll(async () => {
    await browser?.close()
    await app?.close()
    await rm(folder, { recursive: true, force: true })
  }, 60_000)

  async function visit(prepare: (context: BrowserContext) => Promise<unknown> = async () => {}) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
    onTestFinished(() => context.close())
    context.setDefaultTimeout(patient.timeout)
    await context.addInitScript(watch)
    await prepare(context)
    const page = await context.newPage()
    const complaints = complaintsOf(page)
    await page.goto(`${app.url}/playground/#/calls`)
    await page.getByRole('heading', { name: 'Where the sound goes' }).waitFor()
    return { page, complaints }
  }
  const picture = async (page: Page, name: string) => {
    const place = process.env.CALLS_PICTURE
    if (place !== undefined) await page.screenshot({ path: `${place}-${name}.png`, fullPage: true })
  }
  const captions = (page: Page) => page.getByRole('log', { name: 'Captions' })

  it('a typed question is answered aloud, with captions, and stands in the chat', async () => {
    steps.push(answer)
    const { page, complaints } = await visit()
    await page.getByText('The oracle’s own server speaks the answers (espeak-ng).').waitFor()
    await page.getByText('The oracle’s own server turns your speech into text (sh).').waitFor()
    expect(await counted(page)).toEqual([])
    await picture(page, 'before')
    expect(await faultsOf(page)).toEqual([])
    await page.getByRole('button', { name: 'Call without a microphone' }).click()
    await page.getByText('Listening.').waitFor()
    await page.getByText('The key that stands in the oracle’s DID has signed').waitFor()
    const [{ dtls, cipher } = { dtls: '', cipher: '' }] = await counted(page)
    expect(dtls).toBe('connected')
    expect(cipher).toMatch(/AES|AEAD/)
    await page.getByLabel('Say it in writing').fill('How is the weather?')
    await page.keyboard.press('Enter')
    await loudly(page)
    await picture(page, 'speaking')
    await captions(page).getByText('It is sunny in Nairobi').waitFor()
    expect(await faultsOf(page)).toEqual([])
    await page.getByText('Listening.').waitFor()
    await silently(page)
    await page.getByRole('button', { name: 'Hang up' }).click()
    await page.getByText('You hung up.').waitFor()
    await picture(page, 'after')
    await page.getByRole('button', { name: 'Open the conversation' }).click()
    await page.getByRole('article', { name: 'You' }).getByText('How is the weather?').waitFor()
    await page.getByRole('article', { name: 'Oracle' }).getByText(answer).waitFor()
    expect(complaints).toEqual([])
  }, 240_000)

  it('what is spoken reaches the recognizer whole, and is answered', async () => {
    steps.push('The sun shines.')
    const { page, complaints } = await visit()
    await page.getByRole('button', { name: 'Call', exact: true }).click()
    await captions(page).getByText('How is the weather in Nairobi today?').waitFor()
    await captions(page).getByText('The sun shines.').waitFor()
    await loudly(page)
    const files = (await readdir(folder)).filter((name) => name.startsWith('heard-'))
    expect(files).toHaveLength(1)
    const heard = new WavReader().read(await readFile(join(folder, files[0] ?? '')))
    const spoken = await speech('How is the weather in Nairobi today?')
    // The words, 200 ms from before them, and the silence that ended them.
    const seconds = (heard?.pcm.length ?? 0) / 16_000 - 0.2 - 0.6
    expect(heard?.rate).toBe(16_000)
    expect(Math.abs(seconds - spoken.length / 22_050)).toBeLessThan(0.45)
    expect(Math.max(...(heard?.pcm ?? []))).toBeGreaterThan(3_000)
    await page.getByRole('button', { name: 'Hang up' }).click()
    await page.getByText('You hung up.').waitFor()
    expect(complaints).toEqual([])
  }, 240_000)

  it('“Be quiet” silences the page, and the history ends where it was heard', async () => {
    steps.push(long)
    const { page } = await visit()
    await page.getByRole('button', { name: 'Call without a microphone' }).click()
    await page.getByLabel('Say it in writing').fill('Tell me everything.')
    await page.keyboard.press('Enter')
    // Some words are heard: a reply of which nobody heard a word leaves no message.
    await expect.poll(() => loudSamples(page), patient).toBeGreaterThan(50)
    await page.getByRole('button', { name: 'Be quiet' }).click()
    // From here on the reply ends where it was heard, for whoever looks.
    await page.getByText('Listening.').waitFor()
    await silently(page)
    await page.getByRole('button', { name: 'Hang up' }).click()
    await page.getByRole('button', { name: 'Open the conversation' }).click()
    const reply = page.getByRole('article', { name: 'Oracle' })
    await reply.waitFor()
    const read = await reply.innerText()
    expect(read).toContain('This is sentence number 1')
    expect(read).not.toContain('number 40')
  }, 240_000)

  it('a page that cannot see the oracle’s proof sends nothing', async () => {
    let earlier: Record<string, any> | undefined
    const changes: ((body: Record<string, any>) => Record<string, any>)[] = [
      (body) => ({ ...body, proof: undefined }),
      ({ proof, ...body }) => ({
        ...body,
        proof: { ...proof, signature: other(proof.signature) },
      }),
      ({ sdp, ...body }) => ({
        ...body,
        sdp: sdp.replace(/(?<=a=fingerprint:sha-256 )./g, other),
      }),
      (body) => earlier ?? body,
      (body) => ({ ...body, sessionId: 'another', callId: crypto.randomUUID() }),
    ]
    for (const [number, change] of changes.entries()) {
      const { page } = await visit((context) =>
        context.route('**/calls', async (route) => {
          if (route.request().method() !== 'POST') return route.fallback()
          const response = await route.fetch()
          const body = await response.json()
          await route.fulfill({ response, json: change(body) })
          if (number === 0) earlier = body
        }),
      )
      await page.getByRole('button', { name: 'Call without a microphone' }).click()
      await page.getByRole('alert').getByText('It cannot be shown that the oracle').waitFor()
      for (const { bytes, dtls } of await counted(page)) {
        expect(bytes).toBe(0)
        expect(dtls).not.toBe('connected')
      }
      await page.context().close()
    }
  }, 240_000)

  it.each([
    ['puts its own peer in between', true],
    ['exchanges the offer’s fingerprint', false],
  ])(
    'a proxy that %s gets no connection and no sound',
    async (_, isAnswered) => {
      const told: string[] = []
      const tell = ({ type }: { readonly type: string }) => told.push(type)
      const { page } = await visit((context) =>
        context.route('**/calls', async (route) => {
          if (route.request().method() !== 'POST') return route.fallback()
          const asked = route.request().postDataJSON()
          const spy = await Peer.open({ ...spying, sdp: readOffer(asked.sdp).sdp, tell })
          onTestFinished(() => spy.peer.close())
          // The oracle is called by the spy, with the fingerprint of the spy's certificate.
          const own = answeredFingerprint(spy.sdp)
          const sdp = asked.sdp.replace(/(a=fingerprint:sha-256 )\S+/gi, `$1${own}`)
          const response = await route.fetch({ postData: JSON.stringify({ ...asked, sdp }) })
          expect(response.status()).toBe(201)
          const body = await response.json()
          await route.fulfill({ response, json: isAnswered ? { ...body, sdp: spy.sdp } : body })
        }),
      )
      await page.getByRole('button', { name: 'Call without a microphone' }).click()
      await page.getByRole('alert').getByText('It cannot be shown that the oracle').waitFor()
      for (const { bytes, dtls } of await counted(page)) {
        expect(bytes).toBe(0)
        expect(dtls).not.toBe('connected')
      }
      expect(told).toEqual([])
    },
    240_000,
  )
})
