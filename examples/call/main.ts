import { spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { joined } from '../../plugins/calls/speech/command.ts'
import { WavReader, wavOf } from '../../plugins/calls/speech/wav.ts'
import { Caller, chromiumHere } from './caller.ts'

// npm run example:call -- question.wav: calls the running server from a Chromium without a window, plays the file into its
// microphone, and prints where the sound went, the captions and their times.
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    url: { type: 'string', default: process.env.ORACLE_URL ?? 'http://127.0.0.1:3000' },
    say: { type: 'string', default: 'What can you do for me?' },
    consent: { type: 'string' },
  },
})
/** How long the call waits for words, and how long the microphone is silent before them: the call stands by then. */
const most = { callMs: 120_000 }
const silentMs = { before: 4_000, after: 4_000 }

const folder = await mkdtemp(join(tmpdir(), 'example-call-'))
try {
  const program = chromiumHere()
  if (program === undefined) throw new Error('Install Chromium, or name its program in CHROMIUM.')
  const { file, speechEndsMs } = await microphone(positionals[0], values.say)
  const caller = await Caller.open({ program, file, url: values.url })
  try {
    for (const line of caller.whereSoundGoes) console.log(`  ${line}`)
    if (caller.consent !== undefined && caller.consent !== values.consent)
      throw new Error(`That needs consent: add --consent ${JSON.stringify(caller.consent)}.`)
    await caller.call()
    if (!caller.isHeard) {
      console.log('Nothing at the server hears: the words are typed.')
      await caller.type(values.say)
    }
    const { answeredMs } = await caller.listen(most.callMs, (ms, line) =>
      console.log(`${(ms / 1_000).toFixed(1).padStart(6)} s  ${line}`),
    )
    if (caller.isHeard && answeredMs !== undefined && speechEndsMs !== undefined)
      console.log(
        `From the last word to the first sound: ${Math.round(answeredMs - speechEndsMs)} ms.`,
      )
    console.log(
      `Sent ${caller.sent} and received ${caller.received} bytes of sound, ${caller.cipher}.`,
    )
  } finally {
    await caller.close()
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
} finally {
  await rm(folder, { recursive: true, force: true })
}

/** The file that the microphone plays: silence, the words, silence; and when the words end in it. */
async function microphone(given: string | undefined, words: string) {
  const spoken = given === undefined ? speechOf(words) : await readFile(given)
  const file = join(folder, 'microphone.wav')
  const { rate, pcm } = (spoken && new WavReader().read(spoken)) ?? {
    ...{ rate: 16_000, pcm: new Int16Array(0) },
  }
  const silence = (ms: number) => new Int16Array((rate * ms) / 1_000)
  const sound = joined([silence(silentMs.before), pcm, silence(silentMs.after)])
  await writeFile(file, wavOf({ rate, pcm: sound }))
  const speechEndsMs = pcm.length === 0 ? undefined : silentMs.before + (pcm.length / rate) * 1_000
  return { file, speechEndsMs }
}

function speechOf(words: string): Buffer | undefined {
  const { status, stdout } = spawnSync('espeak-ng', ['--stdin', '--stdout'], { input: words })
  return status === 0 ? stdout : undefined
}
