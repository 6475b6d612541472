import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { onEachDatabase, onPostgres } from '../support/each-database.ts'
import type { Seen } from '../support/event-stream.ts'
import { deafEngine, sayingEngine, talkingEngine } from '../support/fake-engines.ts'
import { replica } from '../support/replica.ts'

const isMessage = ({ event }: Seen) => event === 'message'

await onEachDatabase('a stop, with a fake engine', (where) => {
  test('is answered before the stream ends, and reaches the engine before it is answered', async () => {
    const order: string[] = []
    const here = await replica({ engine: talkingEngine(() => order.push('signal')), ...where })
    const sessionId = await here.session()
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Talk' })
    await turn.until(isMessage)
    const ended = turn.rest().then((events) => (order.push('end'), events))
    const { status, body } = await here.call('POST', '/messages/abort', { sessionId })
    order.push('answer')
    expect({ status, body }).toEqual({ status: 200, body: { success: true } })
    const events = await ended
    expect(order).toEqual(['signal', 'answer', 'end'])
    expect(events.at(-1)).toMatchObject({ event: 'done', data: { status: 'aborted' } })
  })

  test('keeps what was said in the transcript, marked', async () => {
    const here = await replica({ engine: talkingEngine(), ...where })
    const sessionId = await here.session()
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Talk' })
    const before = await turn.until(isMessage)
    await here.call('POST', '/messages/abort', { sessionId })
    const events = [...before, ...(await turn.rest())]
    const said = events.filter(isMessage).map(({ data }) => data.content)
    const { body } = await here.call('GET', `/messages/${sessionId}`)
    expect(body.messages).toMatchObject([
      { type: 'human', content: 'Talk', isComplete: true },
      { type: 'ai', content: said.join(''), isComplete: false },
    ])
  })

  test('works on a stream that was resumed, and through another connection than the one that reads', async () => {
    const here = await replica({ engine: talkingEngine(), ...where })
    const sessionId = await here.session()
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Talk' })
    const [run] = await turn.until(isMessage)
    turn.cut()
    const resumed = await here.stream(`/runs/${run?.data.runId}`)
    await resumed.until(isMessage)
    const requestId = run?.data.requestId
    expect(
      (await here.call('POST', '/messages/abort', { sessionId, requestId })).body.success,
    ).toBe(true)
    expect((await resumed.rest()).at(-1)?.data.status).toBe('aborted')
  })

  test('counts when it comes before its message', async () => {
    let carried = 0
    const here = await replica({
      engine: (run) => (carried++, sayingEngine(['Hello.'])(run)),
      ...where,
    })
    const sessionId = await here.session()
    const requestId = randomUUID()
    const stop = await here.call('POST', '/messages/abort', { sessionId, requestId })
    expect(stop.body).toEqual({ success: true })
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Talk', requestId })
    expect((await turn.rest()).map(({ event, data }) => data.status ?? event)).toEqual([
      'run',
      'aborted',
    ])
    expect(carried).toBe(0)
    // It was for that message alone.
    const next = await here.stream(`/messages/${sessionId}`, { message: 'Talk' })
    expect((await next.rest()).at(-1)?.data.status).toBe('finished')
  })

  test('counts in the very moment in which its message arrives', async () => {
    const here = await replica({ engine: talkingEngine(), ...where })
    const sessionId = await here.session()
    for (let i = 0; i < 10; i++) {
      const requestId = randomUUID()
      const [turn, stop] = await Promise.all([
        here.stream(`/messages/${sessionId}`, { message: 'Talk', requestId }),
        here.call('POST', '/messages/abort', { sessionId, requestId }),
      ])
      expect(stop.body.success).toBe(true)
      expect((await turn.rest()).at(-1)?.data.status).toBe('aborted')
    }
  })

  test('of another request, another user or an idle session ends nothing', async () => {
    const here = await replica({ engine: talkingEngine(), ...where })
    const sessionId = await here.session()
    const stop = (body: object, did?: string) => here.call('POST', '/messages/abort', body, did)
    expect((await stop({ sessionId })).body).toEqual({ success: false })
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Talk' })
    await turn.until(isMessage)
    expect((await stop({ sessionId }, 'did:key:zOther')).status).toBe(404)
    await stop({ sessionId, requestId: randomUUID() })
    await turn.until(isMessage)
    expect((await stop({ sessionId })).body).toEqual({ success: true })
    expect((await turn.rest()).at(-1)?.data.status).toBe('aborted')
    expect((await stop({ sessionId: randomUUID() })).status).toBe(404)
    expect((await stop({})).status).toBe(400)
  })

  test('ends a run whose engine does not listen, and keeps what it said', async () => {
    const here = await replica({ engine: deafEngine, ...where })
    const sessionId = await here.session()
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Talk' })
    await turn.until(isMessage)
    await here.call('POST', '/messages/abort', { sessionId })
    expect((await turn.rest()).at(-1)?.data.status).toBe('aborted')
    const { body } = await here.call('GET', `/messages/${sessionId}`)
    expect(body.messages[1]).toMatchObject({ content: 'I never stop.', isComplete: false })
  })
})

await onPostgres('a stop on another replica, with a fake engine', (where) => {
  test('reaches the engine, and both streams end', async () => {
    let heard = 0
    const here = await replica({ engine: talkingEngine((at) => (heard = at)), ...where })
    const there = await replica({ engine: talkingEngine(), ...where })
    const sessionId = await here.session()
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Talk' })
    const other = await there.stream(`/runs/${turn.headers.get('x-run-id')}`)
    await other.until(isMessage)
    const answered = there
      .call('POST', '/messages/abort', { sessionId })
      .then(() => performance.now())
    const [events, seen] = await Promise.all([turn.rest(), other.rest()])
    const ended = performance.now()
    expect(events.at(-1)?.data.status).toBe('aborted')
    expect(seen.at(-1)).toEqual(events.at(-1))
    expect(heard).toBeGreaterThan(0)
    expect(await answered).toBeLessThan(ended)
  })

  test('reaches a run whose replica hears nothing, by its heartbeat', async () => {
    const deaf = await replica({
      engine: talkingEngine(),
      ...where,
      listening: false,
      leaseMs: 600,
    })
    const there = await replica({ engine: talkingEngine(), ...where })
    const sessionId = await deaf.session()
    const turn = await deaf.stream(`/messages/${sessionId}`, { message: 'Talk' })
    await turn.until(isMessage)
    await there.call('POST', '/messages/abort', { sessionId })
    expect((await turn.rest()).at(-1)?.data.status).toBe('aborted')
  })
})
