import { fieldsIn } from './fields.ts'
import { pino, type DestinationStream, type Logger } from 'pino'

interface LogOptions {
  readonly level: string
  /** Lines for people instead of JSON. */
  readonly pretty: boolean
  /** Values that must never be written, whatever a plugin passes to its log. */
  readonly secrets: readonly string[]
  /** Where lines go; standard output by default. */
  readonly write?: (line: string) => void
}

/** The runtime's log. It writes a secret of the environment as `[secret]`. */
export function createLog({ level, pretty, secrets, write }: LogOptions): Logger {
  const out = write ?? ((line: string) => void process.stdout.write(line))
  const masked = masking(secrets)
  const destination: DestinationStream = {
    write(line) {
      const safe = masked(line)
      out(pretty ? forPeople(safe) : safe)
    },
  }
  return pino({ level, base: null, serializers: { err: readable } }, destination)
}

/** An error as the log keeps it. One that throws when it is read must not fail whoever logs it. */
function readable(err: Error): unknown {
  try {
    return pino.stdSerializers.err(err)
  } catch {
    return { type: 'Error', message: 'What was thrown cannot be read.' }
  }
}

/** Puts `[secret]` in the place of each secret. One of less than six characters stays: so short a text stands in many words. */
export function masking(secrets: readonly string[]): (text: string) => string {
  const masked = [...new Set(secrets.filter((secret) => secret.length >= 6).flatMap(spellings))]
  return (text) => {
    let safe = text
    for (const secret of masked)
      if (safe.includes(secret)) safe = safe.replaceAll(secret, '[secret]')
    return safe
  }
}

/** A secret as text has it, as JSON does, as JSON in a JSON text does, as an address and as a form does. */
function spellings(secret: string): string[] {
  const inJson = (text: string) => JSON.stringify(text).slice(1, -1)
  const inAddress = encodeURIComponent(secret.toWellFormed())
  const inForm = String(new URLSearchParams([['', secret]])).slice(1)
  return [inJson(inJson(secret)), inJson(secret), secret, inAddress, inForm]
}

const levels: Record<number, string> = {
  10: 'trace',
  20: 'debug',
  30: '',
  40: 'warn',
  50: 'error',
  60: 'fatal',
}

/** `12:03:04 warn  [notes] sentence  key=value`, and an error's stack on lines of its own. */
function forPeople(line: string): string {
  let entry: Record<string, unknown>
  try {
    entry = JSON.parse(line)
  } catch {
    return line // A masked secret broke the JSON; the line is still worth showing.
  }
  const { level, time, msg, plugin, err, ...rest } = entry
  const clock = new Date(Number(time)).toTimeString().slice(0, 8)
  const word = levels[Number(level)] ?? String(level)
  const fields = Object.entries(rest).map(
    ([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  )
  const head = [clock, word, plugin && `[${plugin}]`, msg, fields.join(' ')]
    .filter(Boolean)
    .join(' ')
  const { stack } = fieldsIn(err)
  if (err !== undefined && err !== null && !stack)
    return `${head} err=${typeof err === 'string' ? err : JSON.stringify(err)}\n`
  return typeof stack === 'string' && stack
    ? `${head}\n${stack.replace(/^/gm, '    ')}\n`
    : `${head}\n`
}
