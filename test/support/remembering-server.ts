import { createInterface } from 'node:readline'
import { createApp } from '../../core/index.ts'
import { call, scriptedModel } from '../../core/testing/index.ts'
import memory from '../../plugins/memory/index.ts'
import { watchStatements } from './statements.ts'

/** What an app with memory is told on its command line. */
export interface RememberingServerSettings {
  readonly databaseUrl?: string | undefined
  readonly dataDir?: string | undefined
}

/** What the process is told while it runs: after which statement that writes it ends itself. */
export interface Fate {
  /** How a statement begins, as a pattern; without it every statement counts. */
  readonly after?: string
  /** Which of these statements is the last; 0 ends the process at once, and without it none does. */
  readonly dies?: number
}

let fate: Fate | undefined
let taken = 0

/** Comes to a statement, and tells of it; the last one is the end of the process, which flushes nothing. */
function step(name: string | undefined): void {
  if (!fate || name === undefined) return
  // A pipe takes a line before the next one runs: what was done before the end is known.
  console.log(`step ${name}`)
  if (fate.after !== undefined && !new RegExp(fate.after, 'i').test(name)) return
  taken += 1
  if (taken === fate.dies) process.kill(process.pid, 'SIGKILL')
}

const writes = /^\s*(insert|update|delete)\b[^]*\bmemory_/i
const ends = /^\s*commit\b/i

/** Finds the steps in the statements of one connection: each that writes, and each end of a transaction in which one wrote. */
class Steps {
  #written: string[] = []

  /** What a statement is called as a step: an end names what was written before it; undefined where it is none. */
  nameOf(text: string): string | undefined {
    const name = text.replace(/\s+/g, ' ').trim()
    if (writes.test(text)) {
      this.#written.push(name.slice(0, 60))
      return name
    }
    if (!ends.test(text) || this.#written.length === 0) return undefined
    const done = this.#written.join('; ')
    this.#written = []
    return `commit of ${done}`
  }
}

/** A step has been taken once the database has answered: whoever is dead after it is dead before the next, too. */
function watch(): void {
  const all = new WeakMap<object, Steps>()
  watchStatements((text, connection) => {
    const steps = all.get(connection) ?? new Steps()
    all.set(connection, steps)
    step(steps.nameOf(text))
  })
}

/** A model that does what it is told: it remembers, it forgets, and it notices where somebody lives. */
const obedient = scriptedModel(
  Array.from(
    { length: 500 },
    () =>
      ({ messages }: { messages: readonly { role: string; content: string }[] }) => {
        const asked = JSON.stringify(messages)
        if (asked.includes('You read what a person said')) {
          const told = (messages.at(-1)?.content ?? '').matchAll(
            /"message":(\d+),"person":"I live in (\w+)/g,
          )
          const memories = [...told].map(([, message, town]) => ({
            message: Number(message),
            quote: `I live in ${town}`,
            text: `lives in ${town}`,
            kind: 'fact',
            slot: 'home',
            value: town,
          }))
          return JSON.stringify({ memories })
        }
        const last = messages.findLast(({ role }) => role === 'user')?.content ?? ''
        if (messages.at(-1)?.role === 'tool') return 'Done.'
        const told = /remember that I like (\w+)/.exec(last)?.[1]
        if (told !== undefined)
          return call('remember', { text: `likes ${told}`, slot: 'likes', value: told })
        if (/^Forget/.test(last)) return call('forget', { ids: ['m1'] })
        return 'I see.'
      },
  ),
)

if (process.argv[1] === import.meta.filename) {
  const { databaseUrl, dataDir } = JSON.parse(process.argv[2] ?? '{}') as RememberingServerSettings
  watch()
  const app = createApp({
    plugins: [memory],
    model: obedient,
    env: {
      NODE_ENV: 'test',
      LOG_LEVEL: 'silent',
      DATA_DIR: dataDir,
      DATABASE_URL: databaseUrl,
      RUN_LEASE_MS: '1000',
      // A machine that does much else lets a process wait for long: only the test ends it.
      EVENT_LOOP_LIMIT_MS: '0',
      MEMORY_AFTER_SECONDS: '0',
    },
  })
  const { url } = await app.listen({ port: 0, host: '127.0.0.1', signals: false })
  console.log(url)
  for await (const line of createInterface({ input: process.stdin })) {
    fate = JSON.parse(line) as Fate
    taken = 0
    console.log('armed')
    if (fate.dies === 0) process.kill(process.pid, 'SIGKILL')
  }
}
