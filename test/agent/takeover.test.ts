import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createParser } from 'eventsource-parser'
import { afterEach, describe, expect, test } from 'vitest'
import type { StreamedEvent } from '#core/testing'
import { fakeOpenAi, type FakeAnswer, type FakeRequest } from '../support/fake-openai.ts'
import { callerOf } from '../support/caller.ts'
import { freshDatabase } from '../support/database.ts'
import { startServer, type ServerProcess } from '../support/process.ts'
import { describeWith } from '../support/services.ts'

/** Where the server dies, what has been paid in the end, and what the model reads of the payment. */
const deaths = [
  { dies: 'while the model is asked for the payment', paid: 1, reads: /"paid":5/ },
  { dies: 'after the mark', paid: 0, reads: /OUTCOME_UNKNOWN/ },
  { dies: 'in the effect', paid: 1, reads: /OUTCOME_UNKNOWN/ },
  { dies: 'after the effect', paid: 1, reads: /"paid":5/ },
  { dies: 'in the answer', paid: 1, reads: /"paid":5/ },
] as const
type Place = (typeof deaths)[number]['dies']

const mnemonic = 'legal winner thank year wave sausage worth useful legal winner thank yellow'
const closers: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

/** The servers, the provider they ask, and one user. */
async function world(dies: Place, databaseUrl: string | undefined) {
  const folder = mkdtempSync(join(tmpdir(), 'oracle-takeover-'))
  closers.push(() => rmSync(folder, { recursive: true, force: true }))
  const payments = join(folder, 'payments')
  let first: ServerProcess | undefined
  let dead = false
  /** The first server dies once, and never knows why. */
  const die = () => {
    if (dead) return
    dead = true
    first!.child.kill('SIGKILL')
  }
  const provider = await fakeOpenAi((request): FakeAnswer => {
    const results = resultsIn(request)
    if (results.length === 0)
      return { toolCalls: [{ name: 'load_capability', args: { names: ['ledger'] } }] }
    if (results.length === 1) {
      if (dies === 'while the model is asked for the payment') die()
      return { text: 'Paying. ', toolCalls: [{ name: 'pay', args: { amount: 5 } }] }
    }
    if (dies === 'after the effect') die()
    if (dies === 'in the answer') setTimeout(die, 60)
    return { text: 'It is all done and paid for now.', paceMs: dead ? 0 : 20 }
  })
  closers.push(() => provider.close())

  async function serve(name: string, DIES = '') {
    const server = startServer('test/support/agent-server.ts', {
      PAYMENTS: payments,
      DIES,
      DATA_DIR: join(folder, databaseUrl ? name : 'data'),
      ...(databaseUrl && { DATABASE_URL: databaseUrl }),
      MODEL: 'openai/x',
      OPENAI_BASE_URL: provider.url,
      ORACLE_MNEMONIC: mnemonic,
      RUN_LEASE_MS: '1000',
    })
    closers.push(() => server.end('SIGKILL'))
    const url = await server.url
    return { server, url }
  }

  const place = { 'after the mark': 'mark', 'in the effect': 'effect' }[dies as string]
  const started = await serve('one', place)
  first = started.server
  const caller = await callerOf(started.url)
  const call = async (url: string, path: string, body?: object) => {
    const { authorization, 'x-auth-type': type } = await caller.headers()
    return fetch(url + path, {
      method: body ? 'POST' : 'GET',
      headers: {
        authorization,
        'x-auth-type': type,
        'content-type': 'application/json',
      },
      body: body && JSON.stringify(body),
    })
  }
  // What the run may do when it is taken over rests on what the user has left here.
  const { 'x-ucan-delegation': raw } = await caller.headers()
  expect((await call(started.url, '/delegation', { raw })).status).toBe(200)
  return {
    first: started,
    serve,
    call,
    provider,
    paid: () => (existsSync(payments) ? readFileSync(payments, 'utf8').trim().split('\n') : []),
  }
}

const resultsIn = ({ body }: FakeRequest) => body.messages.filter(({ role }) => role === 'tool')

/** Reads events up to the end, or until the connection breaks. */
async function readOn(response: Response, events: StreamedEvent[]): Promise<void> {
  const parser = createParser({
    onEvent: ({ id, event = '', data }) =>
      void events.push({ id: Number(id), event, data: JSON.parse(data) }),
  })
  const decoder = new TextDecoder()
  try {
    for await (const bytes of response.body!) parser.feed(decoder.decode(bytes, { stream: true }))
  } catch {
    // The server is dead.
  }
}

/** The text as a client has it, which cuts what was said and not kept. */
function textOf(events: readonly StreamedEvent[]): string {
  let text = ''
  for (const { event, data } of events)
    if (event === 'message') text += data.content
    else if (event === 'run' && data.resumed) text = text.slice(0, data.partialLength)
  return text
}

async function killedAndTakenOver(
  { dies, paid, reads }: (typeof deaths)[number],
  databaseUrl: string | undefined,
): Promise<void> {
  const { first, serve, call, provider, paid: payments } = await world(dies, databaseUrl)
  // A second one on PostgreSQL is there all the time; on SQLite the same one starts again.
  const second = databaseUrl === undefined ? undefined : await serve('two')
  const { sessionId } = (await (await call(first.url, '/sessions', {})).json()) as {
    sessionId: string
  }
  const events: StreamedEvent[] = []
  const response = await call(first.url, `/messages/${sessionId}`, { message: 'Pay five.' })
  await readOn(response, events)
  expect(await first.server.exited).toBe('SIGKILL')
  expect(events.at(-1)?.event).not.toBe('done')

  const { url } = second ?? (await serve('one'))
  const after = events.at(-1)?.id ?? 0
  const runId = response.headers.get('x-run-id')
  await readOn(await call(url, `/runs/${runId}?after=${after}`), events)
  expect(events.at(-1)).toMatchObject({ event: 'done', data: { status: 'finished' } })
  const ids = events.map(({ id }) => id)
  expect(ids).toEqual([...new Set(ids)].toSorted((a, b) => a - b))
  expect(payments()).toHaveLength(paid)
  expect(resultsIn(provider.requests.at(-1)!).at(-1)!.content).toMatch(reads)
  expect(textOf(events)).toBe('Paying. It is all done and paid for now.')

  const { messages } = (await (await call(url, `/messages/${sessionId}`)).json()) as {
    messages: { content: string; toolCalls?: { name: string; status: string }[] }[]
  }
  expect(messages.map(({ content }) => content)).toEqual([
    'Pay five.',
    '',
    'Paying. ',
    'It is all done and paid for now.',
  ])
  // What was loaded before the crash is loaded after it.
  const { plugins } = (await (await call(url, `/capabilities?sessionId=${sessionId}`)).json()) as {
    plugins: { name: string; loaded?: boolean }[]
  }
  expect(plugins).toMatchObject([{ name: 'ledger', loaded: true }])
}

describe('a server with the real engine that is killed and started again, on SQLite', () => {
  test.each(deaths)(
    '$dies: the run goes on, with $paid payments',
    (death) => killedAndTakenOver(death, undefined),
    120_000,
  )
})

await describeWith('postgres', 'two servers with the real engine on one PostgreSQL', (server) => {
  test.each(deaths)(
    '$dies: the other one takes the run over, with $paid payments',
    async (death) => {
      const { url, drop } = await freshDatabase(server)
      closers.push(drop)
      await killedAndTakenOver(death, url)
    },
    120_000,
  )
})
