/// <reference path="../../plugins/calls/media/fvad.d.ts" />
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { DatabaseSync } from 'node:sqlite'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { call, scriptedModel, testApp, type TestApp } from '#core/testing'
import calls from '../../plugins/calls/index.ts'
import { espeakVoice, joined } from '../../plugins/calls/speech/command.ts'
import { wavOf } from '../../plugins/calls/speech/wav.ts'
import playground from '../../plugins/playground/index.ts'
import { builtPage } from '../support/built-page.ts'
import { describeWith, isCommand } from '../support/services.ts'
import { launchCaller } from './calling/calling-page.ts'

const patient = 60_000
const caller = '198.51.100.77'
const offered = '203.0.113.99'
const question = 'What do the purple zebras of Zanzibar look like?'
const answer = 'Exactly like marmalade umbrellas.'

/** Pieces of bytes as they would stand somewhere: as they are, in hexadecimal, and in base64 at any of its three places. */
function formsOf(bytes: Buffer): string[] {
  // Not from its beginning: a header is the same in every file. Silence is no mark of anything.
  const starts = Array.from(
    { length: 12 },
    (_, i) => 60 + Math.floor((i * (bytes.length - 160)) / 12),
  )
  const pieces = starts.map((start) => bytes.subarray(start, start + 48))
  const telling = pieces.filter((piece) => new Set(piece).size > 16)
  expect(telling.length).toBeGreaterThan(3)
  return telling.flatMap((piece) => [
    piece.toString('latin1'),
    piece.toString('hex'),
    ...[0, 1, 2].map((skip) => piece.subarray(skip, skip + 36).toString('base64')),
  ])
}

/** Every value of every table, as text in which bytes are latin1. */
function tablesOf(file: string): Map<string, string> {
  const db = new DatabaseSync(file, { readOnly: true })
  const names = db.prepare(`select name from sqlite_master where type = 'table'`).all()
  const found = names.map(({ name }) => {
    const rows = db.prepare(`select * from "${String(name)}"`).all()
    const values = rows.flatMap((row) => Object.values(row))
    const text = values.map((value) =>
      value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : String(value),
    )
    return [String(name), text.join('\n')] as const
  })
  db.close()
  return new Map(found)
}

async function filesOf(folder: string): Promise<Map<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const read = files.map(async (entry) => {
    const path = join(entry.parentPath, entry.name)
    return [path, (await readFile(path)).toString('latin1')] as const
  })
  return new Map(await Promise.all(read))
}

await describeWith('chromium', 'what is left of a spoken call with a picture', (program) => {
  if (!isCommand('espeak-ng') && !process.env.REQUIRE_ALL)
    return it.skip('needs espeak-ng: apt-get install espeak-ng', () => {})
  const model = scriptedModel([call('look_at_camera'), answer], { reads: { image: ['image/*'] } })
  let app: TestApp
  let browser: Browser
  let data: string
  let aside: string

  beforeAll(async () => {
    data = await mkdtemp(join(tmpdir(), 'calls-data-'))
    aside = await mkdtemp(join(tmpdir(), 'calls-aside-'))
    const pieces: Int16Array[] = []
    const signal = AbortSignal.timeout(20_000)
    for await (const { pcm } of espeakVoice().speak(question, { signal })) pieces.push(pcm)
    const rate = 22_050
    const pcm = joined([new Int16Array(rate * 5), ...pieces, new Int16Array(rate * 4)])
    await writeFile(join(aside, 'microphone.wav'), wavOf({ rate, pcm }))
    await builtPage()
    // What the programs of speech get and make is written down beside the server, to be looked for in it.
    const hears = `cat > ${aside}/heard.wav; echo '${question}'`
    const speaks = `espeak-ng --stdin --stdout | tee ${aside}/spoken.wav`
    app = await testApp({
      plugins: [playground, calls],
      model,
      env: {
        ...{ NODE_ENV: 'development', DATA_DIR: data, TRUST_PROXY_ENABLED: 'true' },
        ...{ CALLS_HEARING: 'command', CALLS_HEARING_COMMAND: JSON.stringify(['sh', '-c', hears]) },
        ...{ CALLS_VOICE: 'command', CALLS_VOICE_COMMAND: JSON.stringify(['sh', '-c', speaks]) },
      },
    })
    browser = await launchCaller(program, join(aside, 'microphone.wav'))
  }, 240_000)
  afterAll(async () => {
    await browser?.close()
    await app?.close()
    for (const folder of [data, aside]) await rm(folder, { recursive: true, force: true })
  }, 60_000)

  it('are the words of the session: no sound, no picture and no address stands in a table, a file or the log', async () => {
    const context = await browser.newContext({ extraHTTPHeaders: { 'x-forwarded-for': caller } })
    context.setDefaultTimeout(patient)
    await context.route('**/calls', async (route) => {
      if (route.request().method() !== 'POST') return route.fallback()
      const body = route.request().postDataJSON()
      const candidate = `a=candidate:9 1 udp 2122260223 ${offered} 50000 typ host\r\n`
      const sdp = body.sdp.replace(/^a=mid:.*\r\n/m, (line: string) => line + candidate)
      await route.fallback({ postData: JSON.stringify({ ...body, sdp }) })
    })
    const page = await context.newPage()
    await page.goto(`${app.url}/playground/#/calls`)
    const posted = page.waitForRequest(
      (request) => request.method() === 'POST' && request.url().endsWith('/calls'),
    )
    await page.getByRole('button', { name: 'Call with camera' }).click()
    const { sdp } = (await posted).postDataJSON() as { sdp: string }
    const captions = page.getByRole('log', { name: 'Captions' })
    await captions.getByText(question).waitFor()
    await captions.getByText(answer).waitFor()
    await page.getByText('Listening.').waitFor()
    await page.getByRole('button', { name: 'Hang up' }).click()
    await page.getByText('You hung up.').waitFor()
    await context.close()

    const { messages, file } = model.requests[1]!
    const [part] = messages.find((message) => message.role === 'tool')?.parts ?? []
    const picture = Buffer.from(await file!(part!.file))
    expect(picture.toString('latin1', 0, 4)).toBe('RIFF')
    const [heard, spoken] = await Promise.all(
      ['heard.wav', 'spoken.wav'].map((name) => readFile(join(aside, name))),
    )
    await app.close()

    const tables = tablesOf(join(data, 'oracle.sqlite'))
    const files = await filesOf(data)
    const places = new Map([...tables, ...files, ['the log', app.log.join('\n')]])
    // It is looked for where things are kept: the words are there, and in no table of calls.
    const withWords = [...tables]
      .filter(([, text]) => text.includes(question))
      .map(([name]) => name)
    expect(withWords).not.toEqual([])
    expect(withWords.filter((name) => name.startsWith('calls_'))).toEqual([])
    expect(tables.get('calls_calls')).toContain('video')
    expect(app.log.join('\n')).not.toContain('zebras')
    expect(app.log.join('\n')).not.toContain('marmalade')

    const secrets = [picture, heard!, spoken!].flatMap(formsOf)
    // The address that a proxy tells, the one that the offer tells, and the names by which the page offers itself.
    const names = [...sdp.matchAll(/^a=candidate:\S+ \d \S+ \d+ (\S+)/gm)].map(
      ([, name = '']) => name,
    )
    const addresses = [caller, offered, ...names.filter((name) => name !== '127.0.0.1')]
    for (const [name, text] of places)
      for (const secret of [...secrets, ...addresses])
        expect(text.includes(secret), `${name}: ${Buffer.from(secret).toString('base64')}`).toBe(
          false,
        )
  }, 240_000)
})
