import { appendFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { createApp, definePlugin, type Message, type Model } from '#core'

/**
 * A server of a fleet that is replaced while it works. GENERATION 2 adds a migration; NOTES is the file of what happened in
 * the world outside, a line each; PACE_MS is how long each word takes.
 */
const { GENERATION = '1', NOTES = '', PACE_MS = '1000' } = process.env
const note = (line: string) => appendFileSync(NOTES, `${line}\n`)

/** What a chat says, word by word. */
const words = Array.from({ length: 10 }, (_, n) => `word${n} `)
const paceMs = Number(PACE_MS)

/** Talks, or calls the tool that the last message names, and says then what came of it. */
const model: Model = {
  id: 'rolling/one',
  contextWindow: undefined,
  async *stream({ messages, signal }) {
    const last = messages.findLastIndex(({ role }) => role === 'user')
    const [verb = '', id = ''] = textOf(messages[last]).split(' ')
    const results = messages.slice(last).filter(({ role }) => role === 'tool')
    const tool = { Pay: 'pay', Sign: 'sign' }[verb]
    if (tool && results.length === 0) {
      yield { type: 'tool-call', index: 0, id: `call-${id}`, name: tool, args: `{"id":"${id}"}` }
      return
    }
    for (const word of words) {
      yield { type: 'text', text: word }
      await pause(paceMs, undefined, { signal })
    }
  },
}

const textOf = (message: Message | undefined): string =>
  message && typeof message.content === 'string' ? message.content : ''

const fleet = definePlugin({
  name: 'fleet',
  summary: 'Pays and signs.',
  visibility: 'always',
  migrations: {
    '001-first': (db) => db.schema.createTable('fleet_first').addColumn('n', 'integer').execute(),
    ...(GENERATION === '2' && {
      '002-added': (db) => db.schema.createTable('fleet_added').addColumn('n', 'integer').execute(),
    }),
  },
  tools: {
    pay: {
      description: 'Pays.',
      input: z.object({ id: z.string() }),
      async run({ id }) {
        note(`paid ${id}`)
        await pause(200)
        return `paid ${id}`
      },
    },
    sign: {
      description: 'Signs.',
      approve: true,
      input: z.object({ id: z.string() }),
      run({ id }) {
        note(`signed ${id}`)
        return `signed ${id}`
      },
    },
  },
  jobs: {
    work: {
      input: z.object({ n: z.number() }),
      attempts: 20,
      async run({ n }, { signal }) {
        await pause(100, undefined, { signal })
        note(`worked ${n}`)
      },
    },
  },
  routes: {
    'GET /generation': {
      auth: 'public',
      run: () => ({ generation: GENERATION, pid: process.pid }),
    },
    'POST /work': {
      auth: 'public',
      input: z.object({ n: z.number() }),
      async run({ n }, { jobs }) {
        await jobs.later('work', { n }, { key: `n-${n}` })
        return { asked: n }
      },
    },
  },
})

await createApp({ plugins: [fleet], model }).listen()
