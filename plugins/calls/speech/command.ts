import { type ChildProcess, spawn } from 'node:child_process'
import type { Hearing, Spoken, Voice } from './port.ts'
import { WavReader, wavOf } from './wav.ts'

/** How long a program may take for a sentence or an utterance, and for the first sound; how much it may write. */
const most = {
  ms: 30_000,
  firstMs: 8_000,
  textBytes: 65_536,
  soundBytes: 20 << 20,
  errorBytes: 2_000,
}
/** How long an utterance may be that a program is given: a minute at 16 kHz, and a little. */
const longestSamples = 16_000 * 65

/** Words that may stand in the place of `{language}` and `{voice}`: they become an argument, never a line for a shell. */
const plainWord = /^[a-z0-9][a-z0-9_+-]{0,63}$/i

/** A program with its arguments, in which `{language}` and `{voice}` stand for words of the call. */
export type Command = readonly [program: string, ...rest: string[]]

/** The arguments for one call of a program. A word that is not plain is left as the fallback. */
export function argumentsOf(
  command: Command,
  words: { readonly language?: string; readonly voice?: string },
): string[] {
  const safe = (word: string | undefined, fallback: string) =>
    word !== undefined && plainWord.test(word) ? word : fallback
  return command
    .slice(1)
    .map((part) =>
      part
        .replaceAll('{language}', safe(words.language, 'en'))
        .replaceAll('{voice}', safe(words.voice, safe(words.language, 'en'))),
    )
}

interface Run {
  readonly child: ChildProcess
  /** Resolves when the program has ended well; rejects with what it wrote to its error output. */
  readonly ended: Promise<void>
}

function run(command: Command, args: readonly string[], signal: AbortSignal): Run {
  const [program] = command
  const limited = AbortSignal.any([signal, AbortSignal.timeout(most.ms)])
  const child = spawn(program, args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    signal: limited,
    killSignal: 'SIGKILL',
  })
  let complaint = ''
  child.stderr?.on('data', (bytes: Buffer) => {
    if (complaint.length < most.errorBytes) complaint += bytes.toString('utf8')
  })
  child.stdin?.on('error', () => undefined) // a program that reads nothing says so by its end
  const ended = new Promise<void>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => {
      if (code === 0) resolve()
      else
        reject(
          new Error(`${program} ended with ${code}: ${complaint.slice(0, most.errorBytes).trim()}`),
        )
    })
  })
  ended.catch(() => undefined) // whoever reads the output asks for it, too
  return { child, ended }
}

/** Speech by a program: text on its input, a WAV file on its output. */
export const voiceByCommand = (
  name: string,
  command: Command,
  voices?: readonly string[],
): Voice => ({
  name,
  where: 'server',
  ...(voices && { voices }),
  async *speak(text, { signal, ...words }) {
    const { child, ended } = run(command, argumentsOf(command, words), signal)
    try {
      child.stdin?.end(text)
      yield* soundOf(child)
      await ended
    } finally {
      child.kill('SIGKILL')
    }
  },
})

async function* soundOf(child: ChildProcess): AsyncIterable<Spoken> {
  const reader = new WavReader()
  let bytes = 0
  let samples = 0
  // Who waits for an answer hears nothing meanwhile.
  const late = setTimeout(() => child.kill('SIGKILL'), most.firstMs)
  try {
    for await (const piece of child.stdout ?? []) {
      clearTimeout(late)
      bytes += piece.length
      if (bytes > most.soundBytes) throw new Error('The program wrote too much sound.')
      const spoken = reader.read(piece)
      samples += spoken?.pcm.length ?? 0
      if (spoken) yield spoken
    }
  } finally {
    clearTimeout(late)
  }
  if (samples === 0) throw new Error('The program made no sound.')
}

/** Text by a program: a WAV file on its input, text on its output. */
export const hearingByCommand = (name: string, command: Command): Hearing => ({
  name,
  where: 'server',
  open({ language, signal }) {
    const pieces: Int16Array[] = []
    let samples = 0
    return {
      push(pcm) {
        if (samples >= longestSamples) return
        samples += pcm.length
        pieces.push(pcm)
      },
      async end() {
        const { child, ended } = run(
          command,
          argumentsOf(command, { ...(language && { language }) }),
          signal,
        )
        try {
          child.stdin?.end(wavOf({ rate: 16_000, pcm: joined(pieces) }))
          let text = ''
          for await (const piece of child.stdout ?? []) {
            text += piece.toString('utf8')
            if (text.length > most.textBytes) throw new Error('The program wrote too much text.')
          }
          await ended
          return { text: text.trim() }
        } finally {
          child.kill('SIGKILL')
        }
      },
    }
  },
})

/** The pieces as one. */
export function joined(pieces: readonly Int16Array[]): Int16Array {
  const whole = new Int16Array(pieces.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}

/** espeak-ng as a voice: the text on its input, so that no text is ever an argument. */
export const espeakVoice = (program = 'espeak-ng'): Voice =>
  voiceByCommand('espeak-ng', [program, '--stdin', '--stdout', '-v', '{voice}', '-s', '165'])
