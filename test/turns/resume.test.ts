import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { onEachDatabase, onPostgres } from '../support/each-database.ts'
import type { Seen } from '../support/event-stream.ts'
import { say, sayingEngine, toolEngine } from '../support/fake-engines.ts'
import { type Replica, replica } from '../support/replica.ts'

const isDone = ({ event }: Seen) => event === 'done'

/** Reads a run with a new connection for every single event; what each connection got. */
async function readByOne(where: readonly Replica[], runId: string): Promise<Seen[]> {
  const seen: Seen[] = []
  for (let i = 0; !seen.some(isDone); i++) {
    const after = seen.at(-1)?.id ?? 0
    // Both ways of saying where to go on, in turn.
    const byHeader = i % 2 === 1
    const stream = await where[i % where.length]!.stream(
      `/runs/${runId}${byHeader ? '' : `?after=${after}`}`,
      undefined,
      byHeader ? { 'Last-Event-ID': String(after) } : {},
    )
    const event = await stream.next()
    if (!event) throw new Error(`No event came after ${after}`)
    seen.push(event)
    stream.cut()
  }
  return seen
}

await onEachDatabase('a run with a fake engine', (where) => {
  test('streams run first and done last, with numbers that rise', async () => {
    const { stream, session } = await replica({ engine: toolEngine(), ...where })
    const requestId = randomUUID()
    const sessionId = await session()
    const turn = await stream(`/messages/${sessionId}`, { message: 'Look it up', requestId })
    expect(turn.status).toBe(200)
    expect(turn.headers.get('content-type')).toBe('text/event-stream')
    expect(turn.headers.get('x-request-id')).toBe(requestId)
    const runId = turn.headers.get('x-run-id')
    const events = await turn.rest()
    const userMessageId = `user-${runId}`
    const data = { runId, sessionId, requestId, userMessageId }
    expect(events[0]).toEqual({ id: 1, event: 'run', data })
    expect(events.at(-1)).toMatchObject({
      event: 'done',
      data: { runId, sessionId, status: 'finished' },
    })
    expect(events.map(({ id }) => id)).toEqual(events.map((_, i) => i + 1))
  })

  test('name in their first event the message that began them, as the history does', async () => {
    const here = await replica({ engine: sayingEngine(['Hello.']), ...where })
    const sessionId = await here.session()
    for (const message of ['Hi', 'Hi again']) {
      const turn = await here.stream(`/messages/${sessionId}`, { message })
      const [run] = await turn.rest()
      const { body } = await here.call('GET', `/messages/${sessionId}`)
      const said = body.messages.findLast(({ type }: { type: string }) => type === 'human')
      expect(said).toMatchObject({ id: run?.data.userMessageId, content: message })
    }
  })

  test('gives every event exactly once, in order, to a client that is cut off after each one', async () => {
    const here = await replica({ engine: toolEngine(5), ...where })
    const turn = await here.stream(`/messages/${await here.session()}`, { message: 'Look it up' })
    const runId = turn.headers.get('x-run-id') ?? ''
    turn.cut()
    const live = await readByOne([here], runId)
    const whole = await (await here.stream(`/runs/${runId}`)).rest()
    expect(live).toEqual(whole)
    expect(whole.map(({ id }) => id)).toEqual(whole.map((_, i) => i + 1))
    expect(whole.at(-1)).toMatchObject({ event: 'done', data: { status: 'finished' } })
    // And the same again when all of it is history.
    expect(await readByOne([here], runId)).toEqual(whole)
  })

  test('shows the same to two readers, wherever in it they begin', async () => {
    const here = await replica({ engine: toolEngine(5), ...where })
    const turn = await here.stream(`/messages/${await here.session()}`, { message: 'Look it up' })
    const runId = turn.headers.get('x-run-id')
    const first = await turn.until(({ event }) => event === 'progress')
    const early = await here.stream(`/runs/${runId}`)
    const late = await here.stream(`/runs/${runId}?after=${first.at(-1)?.id}`)
    const rest = await turn.rest()
    expect(await late.rest()).toEqual(rest)
    expect(await early.rest()).toEqual([...first, ...rest])
  })

  test('tells the end to whoever asks from the end or beyond', async () => {
    const here = await replica({ engine: sayingEngine(['Hello.']), ...where })
    const turn = await here.stream(`/messages/${await here.session()}`, { message: 'Hi' })
    const events = await turn.rest()
    const runId = turn.headers.get('x-run-id')
    const last = events.at(-1)
    for (const after of [last?.id, 1_000_000])
      expect(await (await here.stream(`/runs/${runId}?after=${after}`)).rest()).toEqual([last])
  })

  test('goes on without its client', async () => {
    const here = await replica({ engine: sayingEngine(['One, ', 'two, ', 'three.'], 20), ...where })
    const sessionId = await here.session()
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Count' })
    await turn.next()
    turn.cut()
    const runId = turn.headers.get('x-run-id')
    const events = await (await here.stream(`/runs/${runId}`)).rest()
    expect(events.at(-1)?.data.status).toBe('finished')
    const { body } = await here.call('GET', `/messages/${sessionId}`)
    expect(body.messages[1]).toMatchObject({ content: 'One, two, three.', isComplete: true })
  })

  test('has stored the reply, its tools and its components before done is sent', async () => {
    const here = await replica({ engine: toolEngine(), ...where })
    const sessionId = await here.session()
    for (let i = 0; i < 5; i++) {
      const turn = await here.stream(`/messages/${sessionId}`, { message: `Look it up ${i}` })
      await turn.until(isDone)
      const { body } = await here.call('GET', `/messages/${sessionId}`)
      const messages = body.messages.slice(-4)
      expect(
        messages.map(({ type, content }: { type: string; content: string }) => [type, content]),
      ).toEqual([
        ['human', `Look it up ${i}`],
        ['ai', 'Round 1. '],
        ['ai', 'Round 2. '],
        ['ai', 'That is all.'],
      ])
      const runId = turn.headers.get('x-run-id')
      expect(messages[1].toolCalls).toEqual([
        {
          id: `call-${runId}-1`,
          name: 'look_up',
          args: { round: 1 },
          status: 'done',
          output: 'found 1',
        },
        { id: `card-call-${runId}-1`, name: 'Card', args: { round: 1 }, status: 'done' },
      ])
    }
  })

  test('is found again by its request id, and not run twice', async () => {
    let carried = 0
    const saying = sayingEngine(['Once.'], 10)
    const here = await replica({ engine: (run) => (carried++, saying(run)), ...where })
    const path = `/messages/${await here.session()}`
    const body = { message: 'Say it', requestId: randomUUID() }
    const turns = await Promise.all([1, 2, 3].map(() => here.stream(path, body)))
    const seen = await Promise.all(turns.map((turn) => turn.rest()))
    const again = await here.stream(path, body)
    expect(await again.rest()).toEqual(seen[0])
    expect(seen[1]).toEqual(seen[0])
    expect(seen[2]).toEqual(seen[0])
    expect(new Set([...turns, again].map(({ headers }) => headers.get('x-run-id'))).size).toBe(1)
    expect(carried).toBe(1)
  })

  test('joins what is said in one tick, and keeps the order of everything else', async () => {
    const here = await replica({
      engine: async (run) => {
        for (const content of ['a', 'b', 'c']) run.emit('message', { content })
        run.emit('router', { route: 'here' })
        for (const content of ['d', 'e']) run.emit('message', { content })
        await say(run, 'abcde')
        return { status: 'finished' }
      },
      ...where,
    })
    const turn = await here.stream(`/messages/${await here.session()}`, { message: 'Spell' })
    const events = await turn.rest()
    expect(events.map(({ event, data }) => data.content ?? data.route ?? event)).toEqual([
      'run',
      'abc',
      'here',
      'de',
      'done',
    ])
  })

  test('ends with an error event and failed when the engine throws, and says nothing of why', async () => {
    const here = await replica({
      engine: async (run) => {
        run.emit('message', { content: 'Let me see' })
        await sleep(5)
        throw new Error('secret detail')
      },
      ...where,
    })
    const sessionId = await here.session()
    const events = await (await here.stream(`/messages/${sessionId}`, { message: 'Hi' })).rest()
    expect(events.slice(-2)).toMatchObject([
      { event: 'error', data: { code: 'INTERNAL', retryable: false } },
      { event: 'done', data: { status: 'failed' } },
    ])
    expect(JSON.stringify(events)).not.toContain('secret')
    const { body } = await here.call('GET', `/messages/${sessionId}`)
    expect(body.messages[1]).toMatchObject({ content: 'Let me see', isComplete: false })
  })

  test('cannot be read, or known to exist, by another user', async () => {
    const here = await replica({ engine: sayingEngine(['Hello.']), ...where })
    const turn = await here.stream(`/messages/${await here.session()}`, { message: 'Hi' })
    await turn.rest()
    const path = `/runs/${turn.headers.get('x-run-id')}`
    const foreign = await here.call('GET', path, undefined, 'did:key:zOther')
    const missing = await here.call('GET', `/runs/${randomUUID()}`)
    expect(foreign.status).toBe(404)
    expect(foreign.body.code).toBe(missing.body.code)
    expect((await here.call('GET', `${path}?after=-1`)).status).toBe(400)
    expect((await here.stream(path, undefined, { 'Last-Event-ID': 'x' })).status).toBe(400)
  })

  test('tells what it is doing while it runs, and nothing when it is over', async () => {
    const go = Promise.withResolvers<void>()
    const here = await replica({
      engine: async (run) => {
        await go.promise
        await say(run, 'Done.')
        return { status: 'finished' }
      },
      ...where,
    })
    const sessionId = await here.session()
    expect((await here.call('GET', `/sessions/${sessionId}/run`)).body).toEqual({
      run: null,
      waitingTurns: 0,
    })
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Hi' })
    const runId = turn.headers.get('x-run-id')
    expect((await here.call('GET', `/sessions/${sessionId}/run`)).body).toEqual({
      run: { runId, status: 'running' },
      waitingTurns: 0,
    })
    go.resolve()
    await turn.rest()
    expect((await here.call('GET', `/sessions/${sessionId}/run`)).body).toEqual({
      run: null,
      waitingTurns: 0,
    })
  })
})

await onPostgres('a run on two replicas, with a fake engine', (where) => {
  test('is read on the other one, live and event by event', async () => {
    const here = await replica({ engine: toolEngine(5), ...where })
    const there = await replica({ engine: toolEngine(5), ...where })
    const turn = await here.stream(`/messages/${await here.session()}`, { message: 'Look it up' })
    const runId = turn.headers.get('x-run-id') ?? ''
    const other = await there.stream(`/runs/${runId}`)
    const [seen, seenThere, seenByOne] = await Promise.all([
      turn.rest(),
      other.rest(),
      readByOne([there, here], runId),
    ])
    expect(seenThere).toEqual(seen)
    expect(seenByOne).toEqual(seen)
    expect(await (await there.stream(`/runs/${runId}`)).rest()).toEqual(seen)
  })

  test('is read to its end when notifications are lost', async () => {
    const here = await replica({ engine: toolEngine(20), ...where })
    const deaf = await replica({ engine: toolEngine(20), ...where, listening: false })
    const turn = await here.stream(`/messages/${await here.session()}`, { message: 'Look it up' })
    const other = await deaf.stream(`/runs/${turn.headers.get('x-run-id')}`)
    expect(await other.rest()).toEqual(await turn.rest())
  })
})
