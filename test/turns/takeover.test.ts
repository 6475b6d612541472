import { randomUUID } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type Child, startChild } from '../support/child.ts'
import { freshDatabase } from '../support/database.ts'
import { openStream, type Seen } from '../support/event-stream.ts'
import type { ServerSettings } from '../support/run-server.ts'
import { someone } from '../support/server.ts'
import { describeWith } from '../support/services.ts'
import { quarantinedNotice } from '../support/notices.ts'

const headers = { Authorization: `Bearer ${someone}` }
type Dies = NonNullable<ServerSettings['dies']>

/** What a client makes of the events: the text, cut where a run changed hands. */
function textOf(events: readonly Seen[]): string {
  let text = ''
  for (const { event, data } of events) {
    if (event === 'message') text += data.content
    if (event === 'run' && data.resumed) text = text.slice(0, data.partialLength)
  }
  return text
}

/** A place for a database and for what the payments leave in the world. */
class World {
  readonly folder = mkdtempSync(join(tmpdir(), 'runs-'))
  readonly #where: Pick<ServerSettings, 'databaseUrl' | 'dataDir'>
  readonly #leaseMs: number
  readonly #children: Child[] = []

  constructor(
    databaseUrl: string | undefined,
    leaseMs: number,
    onEnd: (end: () => void) => void = onTestFinished,
  ) {
    this.#where = databaseUrl ? { databaseUrl } : { dataDir: join(this.folder, 'data') }
    this.#leaseMs = leaseMs
    onEnd(() => {
      for (const child of this.#children) child.process.kill('SIGKILL')
      rmSync(this.folder, { recursive: true, force: true })
    })
  }

  get payments(): string[] {
    const path = join(this.folder, 'payments')
    return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : []
  }

  /** A server, in a process of its own. */
  async server(settings: Partial<ServerSettings> = {}): Promise<Server> {
    const payments = join(this.folder, 'payments')
    const all = { ...this.#where, leaseMs: this.#leaseMs, payments, ...settings }
    const child = startChild('./run-server.ts', [JSON.stringify(all)])
    this.#children.push(child)
    const [url = ''] = await child.printed(1)
    return new Server(child, url)
  }
}

class Server {
  readonly child: Child
  readonly url: string

  constructor(child: Child, url: string) {
    this.child = child
    this.url = url
  }

  async call(method: string, path: string, body?: unknown) {
    const response = await fetch(this.url + path, {
      method,
      headers: { ...headers, 'Content-Type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
    })
    return response.json() as Promise<any> // any: a test states what it expects of it
  }

  async session(): Promise<string> {
    return (await this.call('POST', '/sessions')).sessionId
  }

  stream(path: string, body?: unknown) {
    return openStream(this.url + path, headers, body)
  }
}

/** Reads until the end, or until the server is gone. */
async function readOn(seen: Seen[], stream: Awaited<ReturnType<typeof openStream>>): Promise<void> {
  try {
    for (let event = await stream.next(); event; event = await stream.next()) seen.push(event)
  } catch {
    // The connection broke: the server was killed.
  }
}

/** One message, read through whatever happens to the first server, to its end at the second. */
async function throughDeath(first: Server, next: () => Promise<Server>) {
  const sessionId = await first.session()
  const requestId = randomUUID()
  const message = { message: 'Pay 5', requestId }
  const seen: Seen[] = []
  let runId: string | null = null
  try {
    const turn = await first.stream(`/messages/${sessionId}`, message)
    runId = turn.headers.get('x-run-id')
    await readOn(seen, turn)
  } catch {
    // It died before it answered. The client sends the same again.
  }
  const second = await next()
  // Whoever has read the end has no reason to come back.
  if (seen.at(-1)?.event !== 'done') {
    const after = seen.at(-1)?.id ?? 0
    const rest = runId
      ? await second.stream(`/runs/${runId}?after=${after}`)
      : await second.stream(`/messages/${sessionId}`, message)
    await readOn(seen, rest)
  }
  const { messages } = await second.call('GET', `/messages/${sessionId}`)
  return { seen, messages, sessionId, second }
}

/** Where a process may die, and how many payments there are then. */
const deaths: readonly (readonly [Dies, number])[] = [
  [{ at: 'before the run is recorded' }, 1],
  [{ at: 'after the run is recorded' }, 1],
  [{ at: 'before a step is kept' }, 1],
  [{ at: 'after a step is kept' }, 1],
  [{ at: 'before an effect is marked' }, 1],
  [{ at: 'after an effect is marked' }, 0],
  [{ at: 'in the effect' }, 1],
  [{ at: 'before the result of an effect is kept' }, 1],
  [{ at: 'after the result of an effect is kept' }, 1],
  [{ at: 'before a step is kept', nth: 2 }, 1],
  [{ at: 'after a step is kept', nth: 2 }, 1],
  [{ at: 'in the answer' }, 1],
  [{ at: 'before a step is kept', nth: 3 }, 1],
  [{ at: 'after a step is kept', nth: 3 }, 1],
  [{ at: 'before the end is kept' }, 1],
  [{ at: 'after the end is kept' }, 1],
]

async function survives(world: World, dies: Dies, payments: number, spare?: Server) {
  const before = world.payments.length
  const first = await world.server({ dies })
  const { seen, messages } = await throughDeath(first, async () => {
    await first.child.ended().catch(() => {})
    return spare ?? world.server()
  })
  const ids = seen.map(({ id }) => id ?? NaN)
  expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b))
  expect(seen[0]?.event).toBe('run')
  expect(seen.at(-1)).toMatchObject({ event: 'done', data: { status: 'finished' } })
  expect(seen.filter(({ event }) => event === 'done')).toHaveLength(1)
  expect(textOf(seen)).toBe('Paying. It is all done now.')
  expect(messages).toMatchObject([
    { type: 'human', content: 'Pay 5' },
    { type: 'ai', content: 'Paying. ', toolCalls: [{ name: 'pay', status: 'done' }] },
    { type: 'ai', content: 'It is all done now.', isComplete: true },
  ])
  expect(messages).toHaveLength(3)
  expect(world.payments).toHaveLength(before + payments)
}

describe('a server with a fake engine that is killed and started again, on SQLite', () => {
  test.each(deaths)('%o: the run goes on, with %i payments', async (dies, payments) => {
    await survives(new World(undefined, 10_000), dies, payments)
  })

  test('sets a run aside with which it died twice, with a notice that a person understands', async () => {
    const world = new World(undefined, 10_000)
    const dies = { at: 'in the answer' } as const
    const first = await world.server({ dies })
    const sessionId = await first.session()
    const seen: Seen[] = []
    const turn = await first.stream(`/messages/${sessionId}`, { message: 'Pay 5' })
    await readOn(seen, turn)
    // It takes the run over as it boots, and dies in the answer again.
    const second = await world.server({ dies, pauseMs: 300 })
    const path = `/runs/${turn.headers.get('x-run-id')}`
    await readOn(seen, await second.stream(`${path}?after=${seen.at(-1)?.id}`))
    const third = await world.server({ dies })
    await readOn(seen, await third.stream(`${path}?after=${seen.at(-1)?.id}`))
    expect(seen.at(-1)).toMatchObject({ event: 'done', data: { status: 'failed' } })
    expect(seen.at(-2)).toMatchObject({ event: 'error', data: { code: 'RUN_QUARANTINED' } })
    const { messages } = await third.call('GET', `/messages/${sessionId}`)
    expect(messages.at(-1)).toMatchObject({ type: 'ai', isComplete: false })
    expect(messages.at(-1).content).toMatch(new RegExp(`(^|\n\n)${quarantinedNotice}$`))
    expect(textOf(seen)).toBe(`Paying. ${messages.at(-1).content}`)
    expect(world.payments).toHaveLength(1)
    // The session is free again.
    await third.child.kill('SIGKILL')
    const last = await world.server()
    const again = await last.stream(`/messages/${sessionId}`, { message: 'Pay 5' })
    expect((await again.rest()).at(-1)?.data.status).toBe('finished')
  })

  test('hands its runs over when it is told to end: the client is sent on, the next one goes on', async () => {
    const world = new World(undefined, 60_000)
    const first = await world.server({ pauseMs: 100 })
    const sessionId = await first.session()
    const turn = await first.stream(`/messages/${sessionId}`, { message: 'Pay 5' })
    const seen = await turn.until(({ data }) => data.content === 'It ')
    first.child.process.kill('SIGTERM')
    const farewell = await turn.rest()
    expect(farewell.at(-1)).toMatchObject({ event: 'run', data: { handover: true } })
    expect(farewell.at(-1)?.id).toBeUndefined()
    expect(await first.child.ended()).toBe(0)
    const second = await world.server()
    const after = [...seen, ...farewell].findLast(({ id }) => id !== undefined)?.id
    const rest = await second.stream(`/runs/${turn.headers.get('x-run-id')}?after=${after}`)
    const events = [...seen, ...farewell, ...(await rest.rest())]
    expect(textOf(events)).toBe('Paying. It is all done now.')
    expect(events.at(-1)?.data.status).toBe('finished')
    expect(world.payments).toHaveLength(1)
  })
})

await describeWith('postgres', 'servers with a fake engine on one PostgreSQL', (postgres) => {
  const world = async (leaseMs = 600) => {
    const database = await freshDatabase(postgres)
    onTestFinished(() => database.drop())
    return new World(database.url, leaseMs)
  }

  describe('of which one dies', () => {
    // The one that lives on is the same in all of these.
    let shared: World
    let spare: Server
    beforeAll(async () => {
      const database = await freshDatabase(postgres)
      const endings: (() => void)[] = []
      shared = new World(database.url, 600, (end) => endings.push(end))
      spare = await shared.server()
      return async () => {
        for (const end of endings) end()
        await database.drop()
      }
    })

    test.each(deaths)(
      '%o: the other one takes the run over, with %i payments',
      async (dies, payments) => {
        await survives(shared, dies, payments, spare)
      },
    )
  })

  test('show a reader at the other one how the run goes on, without a reconnect', async () => {
    const here = await world()
    const first = await here.server({ dies: { at: 'in the answer' } })
    const second = await here.server()
    const sessionId = await first.session()
    const turn = await first.stream(`/messages/${sessionId}`, { message: 'Pay 5' })
    const other = await second.stream(`/runs/${turn.headers.get('x-run-id')}`)
    const events = await other.rest()
    const userMessageId = `user-${turn.headers.get('x-run-id')}`
    expect(events.filter(({ event }) => event === 'run')).toMatchObject([
      { data: { userMessageId } },
      { data: { userMessageId, resumed: true, partialLength: 'Paying. '.length } },
    ])
    expect(textOf(events)).toBe('Paying. It is all done now.')
    expect(events.at(-1)?.data.status).toBe('finished')
  })

  test('say of a run whose server hangs that it recovers; when it wakes, it has lost the run', async () => {
    const here = await world()
    const first = await here.server({ pauseMs: 300 })
    const second = await here.server()
    const sessionId = await first.session()
    const turn = await first.stream(`/messages/${sessionId}`, { message: 'Pay 5' })
    const seen = await turn.until(({ data }) => data.content === 'It ')
    first.child.process.kill('SIGSTOP')
    const other = await second.stream(`/runs/${turn.headers.get('x-run-id')}`)
    const events = await other.rest()
    expect(events.at(-1)?.data.status).toBe('finished')
    first.child.process.kill('SIGCONT')
    // The reader of the first server is led to where the run went on.
    seen.push(...(await turn.rest()))
    expect(textOf(seen)).toBe('Paying. It is all done now.')
    expect(seen.at(-1)).toEqual(events.at(-1))
    const ids = seen.map(({ id }) => id ?? NaN)
    expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b))
    expect(here.payments).toHaveLength(1)
  })

  test('hand runs over at once when one is told to end, whatever the lease', async () => {
    const here = await world(60_000)
    const first = await here.server({ pauseMs: 100 })
    const second = await here.server()
    const sessionId = await first.session()
    const turn = await first.stream(`/messages/${sessionId}`, { message: 'Pay 5' })
    const seen = await turn.until(({ data }) => data.content === 'It ')
    first.child.process.kill('SIGTERM')
    seen.push(...(await turn.rest()))
    expect(seen.at(-1)?.data.handover).toBe(true)
    const after = seen.findLast(({ id }) => id !== undefined)?.id
    const rest = await second.stream(`/runs/${turn.headers.get('x-run-id')}?after=${after}`)
    seen.push(...(await rest.rest()))
    expect(textOf(seen)).toBe('Paying. It is all done now.')
    expect(here.payments).toHaveLength(1)
    expect(await first.child.ended()).toBe(0)
  })

  test('close a run as stopped that was stopped while its server was dead', async () => {
    const here = await world(1_500)
    const first = await here.server({ dies: { at: 'in the answer' }, pauseMs: 100 })
    const second = await here.server()
    const sessionId = await first.session()
    const seen: Seen[] = []
    await readOn(seen, await first.stream(`/messages/${sessionId}`, { message: 'Pay 5' }))
    const { run } = await second.call('GET', `/sessions/${sessionId}/run`)
    expect(run.runId).toBe(seen[0]?.data.runId)
    expect((await second.call('POST', '/messages/abort', { sessionId })).success).toBe(true)
    const rest = await second.stream(`/runs/${run.runId}?after=${seen.at(-1)?.id}`)
    expect((await rest.rest()).at(-1)?.data.status).toBe('aborted')
    const { messages } = await second.call('GET', `/messages/${sessionId}`)
    expect(messages.at(-1)).toMatchObject({ type: 'ai', isComplete: false })
    expect(messages.at(-1).content).toMatch(/^It (is )?(all )?$/)
  })
})
