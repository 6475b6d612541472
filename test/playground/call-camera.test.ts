import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { sql } from 'kysely'
import { definePlugin, type Database } from '#core'
import {
  call,
  resultOf,
  scriptedModel,
  testApp,
  type ScriptedStep,
  type TestApp,
} from '#core/testing'
import calls from '../../plugins/calls/index.ts'
import playground from '../../plugins/playground/index.ts'
import { builtPage } from '../support/built-page.ts'
import { describeWith } from '../support/services.ts'
import { launchCaller } from './calling/calling-page.ts'

const patient = 60_000

interface Seen {
  peers: RTCPeerConnection[]
}

/** A page whose connections a test can look into. */
const watch = () => {
  const seen = globalThis as unknown as Seen & { RTCPeerConnection: typeof RTCPeerConnection }
  seen.peers = []
  seen.RTCPeerConnection = class extends RTCPeerConnection {
    constructor(configuration?: RTCConfiguration) {
      super(configuration)
      seen.peers.push(this)
    }
  }
}

/** How many pictures the page has sent, and how often it was asked for one that stands for itself. */
const pictures = (page: Page) =>
  page.evaluate(async () => {
    const counted = { sent: 0, asked: 0 }
    for (const peer of (globalThis as unknown as Seen).peers)
      for (const one of (await peer.getStats()).values())
        if (one.type === 'outbound-rtp' && one.kind === 'video') {
          counted.sent += one.framesSent ?? 0
          counted.asked += (one.pliCount ?? 0) + (one.firCount ?? 0)
        }
    return counted
  })

/** Everything that stands in any table, as text in which bytes are latin1. */
async function everythingIn(db: Database): Promise<string> {
  const { rows: tables } = await sql<{ name: string }>`select name from sqlite_master
    where type = 'table'`.execute(db)
  const pieces: string[] = []
  for (const { name } of tables) {
    const { rows } = await sql<Record<string, unknown>>`select * from ${sql.table(name)}`.execute(
      db,
    )
    for (const value of rows.flatMap((row) => Object.values(row)))
      pieces.push(
        value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : String(value),
      )
  }
  return pieces.join('\n')
}

await describeWith('chromium', 'the camera in a call', (program) => {
  const looks = 5
  const lookedMs: number[] = []
  let askedAt = 0
  const look: ScriptedStep = () => {
    if (askedAt > 0) lookedMs.push(performance.now() - askedAt)
    askedAt = performance.now()
    return call('look_at_camera')
  }
  const steps: ScriptedStep[] = [
    ...Array.from({ length: looks }, () => look),
    () => {
      lookedMs.push(performance.now() - askedAt)
      return 'A picture.'
    },
    ...[call('look_at_camera'), 'Nothing to see.'],
  ]
  const model = scriptedModel(steps, { reads: { image: ['image/*'] } })
  let app: TestApp
  let browser: Browser
  let db: Database | undefined
  const insider = definePlugin({
    name: 'insider',
    summary: 'Reads every table.',
    visibility: 'silent',
    setup: (boot) => void (db = boot.db),
  })

  beforeAll(async () => {
    await builtPage()
    app = await testApp({
      plugins: [playground, calls, insider],
      model,
      env: { NODE_ENV: 'development', CALLS_VOICE: 'none', CALLS_HEARING: 'typed' },
    })
    browser = await launchCaller(program)
  }, 240_000)
  afterAll(async () => {
    await browser?.close()
    await app?.close()
  }, 60_000)

  it('is looked at when the model asks, and by nobody else', async () => {
    const context = await browser.newContext()
    context.setDefaultTimeout(patient)
    await context.addInitScript(watch)
    const page = await context.newPage()
    await page.goto(`${app.url}/playground/#/calls`)
    await page.getByRole('button', { name: 'Call with camera' }).click()
    await page.getByText('Listening.').waitFor()
    // The camera sends all the time, and is asked for nothing.
    await expect
      .poll(async () => (await pictures(page)).sent, { timeout: patient })
      .toBeGreaterThan(15)
    expect((await pictures(page)).asked).toBe(0)
    const ask = async (words: string, answer: string) => {
      await page.getByLabel('Say it in writing').fill(words)
      await page.keyboard.press('Enter')
      await page.getByRole('log', { name: 'Captions' }).getByText(answer).waitFor()
    }
    await ask('What do you see?', 'A picture.')
    expect((await pictures(page)).asked).toBeGreaterThan(0)
    const [, , medianMs = 0] = lookedMs.toSorted((one, other) => one - other)
    console.log(
      `The model had a picture ${Math.round(medianMs)} ms after it had asked for it (median of ${looks}).`,
    )
    expect(lookedMs).toHaveLength(looks)
    expect(medianMs).toBeLessThan(5_000)
    const { messages, file } = model.requests[1]!
    const looked = messages.find((message) => message.role === 'tool')
    const [part] = looked?.parts ?? []
    expect(part).toMatchObject({ type: 'image', mediaType: 'image/webp', name: 'camera.webp' })
    const bytes = await file!(part!.file)
    const size = await page.evaluate(async (base64) => {
      const file = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))
      const blob = new Blob([file], { type: 'image/webp' })
      const { width, height } = await createImageBitmap(blob)
      return [width, height]
    }, Buffer.from(bytes).toString('base64'))
    expect(size).toEqual([640, 480])
    // The words are kept, so this looks where things are kept; of the picture nothing is, as bytes or as their base64.
    const kept = await everythingIn(db!)
    expect(kept).toContain('What do you see?')
    const middle = Buffer.from(bytes).subarray(60, 120)
    expect(middle).toHaveLength(60)
    for (const place of [kept, app.log.join('\n')]) {
      expect(place).not.toContain(middle.toString('latin1'))
      expect(place).not.toContain(Buffer.from(bytes).toString('base64').slice(100, 160))
    }
    await page.getByRole('button', { name: 'Camera on' }).click()
    await page.getByRole('button', { name: 'Camera off' }).waitFor()
    await ask('And now?', 'Nothing to see.')
    expect(String(resultOf(model.requests.at(-1)!, 'look_at_camera'))).toContain(
      'the camera is off',
    )
    await page.getByRole('button', { name: 'Hang up' }).click()
    await page.getByText('You hung up.').waitFor()
    await context.close()
  }, 240_000)
})
