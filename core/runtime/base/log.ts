import { fieldsIn } from './fields.ts'
import { pino, type DestinationStream, type LogFn, type Logger } from 'pino'

interface LogOptions {
  readonly level: string
  /** Lines for people instead of JSON. */
  readonly pretty: boolean
  /** Values that must never be written, whatever a plugin passes to its log. */
  readonly secrets: readonly string[]
  /** Where lines go; standard output by default. */
  readonly write?: (line: string) => void
}

/** How much of a line is written, in bytes. */
export const longestLine = 16 * 1024
/** How much of one text within a line is kept at first, and then, for as long as the line is too long. */
const textLengths = [4_096, 1_024, 256, 64]
/** How deep into its fields a line is cut, and how many fields of an object it keeps then. */
const deepest = { depth: 6, fields: 50 }
const cutMark = '… [cut]'

/** How long a line that would come again and again keeps silent after it was written. */
const silenceMs = 10_000
/** How many lines are remembered that would come again and again. */
const mostSpaced = 100

/** The field of a warning that may come with every request. No line shows it. */
export const mayRepeat = Symbol('mayRepeat')

/** What makes a warning the same as one before: what it warns of, and of whom. */
interface Repeated {
  readonly of: string
  readonly whom?: string | undefined
}

/** Says when a line that would come again and again is due: at once, and then once in ten seconds. */
class Spacings {
  readonly #silentUntil = new Map<string, number>()
  readonly #leftOut = new Map<string, number>()

  /** How many lines of the same thing were left out since the last one; undefined where this one is left out, too. */
  due(repeated: Repeated): number | undefined {
    const { of } = repeated
    const now = performance.now()
    const name = this.#nameOf(repeated, now)
    const leftOut = this.#leftOut.get(of) ?? 0
    if (now < (this.#silentUntil.get(name) ?? 0)) {
      this.#leftOut.set(of, leftOut + 1)
      forgetOldest(this.#leftOut)
      return undefined
    }
    this.#leftOut.delete(of)
    this.#silentUntil.set(name, now + silenceMs)
    forgetOldest(this.#silentUntil)
    return leftOut
  }

  /** Where too many people are warned of to tell them apart, they are one crowd for each thing that they are warned of. */
  #nameOf({ of, whom }: Repeated, now: number): string {
    const name = JSON.stringify([of, whom])
    if (whom === undefined || this.#silentUntil.has(name)) return name
    if (this.#silentUntil.size >= mostSpaced)
      for (const [old, until] of this.#silentUntil) if (until <= now) this.#silentUntil.delete(old)
    return this.#silentUntil.size < mostSpaced ? name : JSON.stringify([of])
  }
}

/** Forgets the oldest where there are too many. */
function forgetOldest(known: Map<string, number>): void {
  for (const [oldest] of known) {
    if (known.size <= mostSpaced) return
    known.delete(oldest)
  }
}

/**
 * While the database is away, whoever looks into it again and again fails again and again, as does every request: each sentence
 * that warns of it, by its own code or by that of its error, comes once in ten seconds, whoever says it. So does a warning that says
 * by `mayRepeat` that it may come with every request, for each thing and person that it warns of.
 */
function spaced() {
  const spacings = new Spacings()
  return function (this: Logger, args: Parameters<LogFn>, write: LogFn, level: number): void {
    const [given, sentence] = args
    const repeated = level === pino.levels.values.warn ? repeatedIn(given, sentence) : undefined
    if (repeated === undefined) return write.apply(this, args)
    const leftOut = spacings.due(repeated)
    if (leftOut === undefined) return
    if (leftOut > 0) args[0] = { ...fieldsIn(given), leftOut }
    write.apply(this, args)
  }
}

/** What makes a warning the same as one before; undefined for one that is always written. */
function repeatedIn(given: unknown, sentence: unknown): Repeated | undefined {
  const fields = fieldsIn(given)
  if ([fields.code, fieldsIn(fields.err).code].includes('DATABASE_UNREACHABLE'))
    return { of: String(sentence) }
  const said: Repeated | undefined = Reflect.get(fields, mayRepeat)
  return said && { ...said, of: `${said.of} ${String(sentence)}` }
}

/** The runtime's log, and the way past its formatting for whoever has whole lines of JSON. */
export interface OpenLog {
  readonly log: Logger
  /** Writes short lines of JSON, each with its line feed, as the log writes its own, but all at once. */
  writeLines(lines: readonly string[]): void
}

/**
 * Opens the runtime's log. It writes a secret of the environment as `[secret]`. A line is at most 16 KiB: what is longer loses the
 * ends of its long texts, causes and stacks included, each marked `[cut]`.
 */
export function openLog({ level, pretty, secrets, write }: LogOptions): OpenLog {
  const out = write ?? ((line: string) => void process.stdout.write(line))
  const masked = masking(secrets)
  const writeLine = (line: string) => {
    const safe = bounded(masked(line))
    out(pretty ? forPeople(safe) : safe)
  }
  const destination: DestinationStream = { write: writeLine }
  return {
    log: pino(
      { level, base: null, serializers: { err: readable }, hooks: { logMethod: spaced() } },
      destination,
    ),
    writeLines(lines) {
      if (pretty || write) for (const line of lines) writeLine(line)
      else out(masked(lines.join('')))
    },
  }
}

/** A line that is not too long. It stays JSON; one that is none, because a masked secret broke it, loses its end. */
function bounded(line: string): string {
  if (line.length <= longestLine / 3 || Buffer.byteLength(line) <= longestLine) return line
  let entry: unknown
  try {
    entry = JSON.parse(line)
  } catch {
    return `${atMost(line, longestLine / 4)}\n`
  }
  // Of very many fields the first are kept; the sentence is never among those that go.
  const { level, time, plugin, msg, ...rest } = fieldsIn(entry)
  for (const length of textLengths) {
    const short = `${JSON.stringify(cut({ level, time, plugin, msg, ...rest }, length))}\n`
    if (Buffer.byteLength(short) <= longestLine) return short
  }
  return `${JSON.stringify(cut({ level, time, plugin, msg, cut: true }, 1_024))}\n`
}

/** The value with texts of at most this length, and without what is too deep or too much. */
function cut(value: unknown, length: number, depth = 0): unknown {
  if (typeof value === 'string') return atMost(value, length)
  if (typeof value !== 'object' || value === null) return value
  if (depth === deepest.depth) return cutMark
  const entries = Object.entries(value)
  const kept = entries
    .slice(0, deepest.fields)
    .map(([name, field]) => [atMost(name, length), cut(field, length, depth + 1)] as const)
  const more = entries.length > kept.length
  if (Array.isArray(value)) return [...kept.map(([, field]) => field), ...(more ? [cutMark] : [])]
  return Object.fromEntries([...kept, ...(more ? [[cutMark, entries.length - kept.length]] : [])])
}

const atMost = (text: string, length: number): string =>
  text.length <= length ? text : text.slice(0, length).toWellFormed() + cutMark

/** An error as the log keeps it. One that throws when it is read must not fail whoever logs it. */
function readable(err: Error): unknown {
  try {
    return pino.stdSerializers.err(err)
  } catch {
    return { type: 'Error', message: 'What was thrown cannot be read.' }
  }
}

/**
 * Puts `[secret]` in the place of each secret. One of less than six characters stays: so short a text stands in many words.
 * Personal keys are known by their form. Secrets may be added to the list at its end.
 */
export function masking(secrets: readonly string[]): (text: string) => string {
  const all = () => [...new Set(secrets.filter((secret) => secret.length >= 6).flatMap(spellings))]
  let masked = all()
  let [count, last] = [secrets.length, secrets.at(-1)]
  return (text) => {
    if (secrets.length !== count || secrets.at(-1) !== last) {
      masked = all()
      ;[count, last] = [secrets.length, secrets.at(-1)]
    }
    let safe = maskKeys(text)
    for (const secret of masked)
      if (safe.includes(secret)) safe = safe.replaceAll(secret, '[secret]')
    return safe
  }
}

/** How every personal key begins, so that people and programs that look for leaked secrets know one. */
export const keyPrefix = 'ok_'
const form = /^ok_[A-Za-z0-9_-]{43}$/
const anywhere = /ok_[A-Za-z0-9_-]{43}/g

/** Whether a text is a personal key by its form. */
export const isPersonalKey = (text: string): boolean => form.test(text)

/** The text with every personal key in it masked. */
const maskKeys = (text: string): string =>
  text.includes(keyPrefix) ? text.replaceAll(anywhere, '[secret]') : text

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
