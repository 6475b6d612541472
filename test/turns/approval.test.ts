import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { args, askingEngine, locatingEngine } from '../support/asking-engines.ts'
import { onEachDatabase, onPostgres } from '../support/each-database.ts'
import { say } from '../support/fake-engines.ts'
import { fakeUser, replica, someone } from '../support/replica.ts'

await onEachDatabase('a run that waits for a person, with a fake engine', (where) => {
  const waiting = async () => {
    const here = await replica({ engine: askingEngine, ...where })
    const sessionId = await here.session()
    const turn = await here.stream(`/messages/${sessionId}`, { message: 'Pay 5' })
    const events = await turn.rest()
    return { here, sessionId, events, runId: turn.headers.get('x-run-id') ?? '' }
  }

  test('ends as waiting, and goes on in a new run that knows which one it continues', async () => {
    const { here, sessionId, events, runId } = await waiting()
    expect(events.slice(-2)).toMatchObject([
      { event: 'interrupt', data: { runId, kind: 'approval', toolName: 'pay', args } },
      { event: 'done', data: { runId, status: 'waiting' } },
    ])
    const underway = async () => (await here.call('GET', `/sessions/${sessionId}/run`)).body
    expect(await underway()).toEqual({ run: null, waiting: { runId }, waitingTurns: 0 })
    const resumed = await here.stream(`/runs/${runId}/resume`, { decision: 'approve' })
    const rest = await resumed.rest()
    expect(rest[0]).toMatchObject({ event: 'run', data: { continues: runId } })
    expect(rest[0]?.data).not.toHaveProperty('userMessageId') // nobody said anything new
    expect(rest[0]?.data.runId).not.toBe(runId)
    expect(rest.at(-1)?.data.status).toBe('finished')
    expect(await underway()).toEqual({ run: null, waitingTurns: 0 })
    const { messages } = (await here.call('GET', `/messages/${sessionId}`)).body
    expect(messages).toMatchObject([
      { type: 'human', content: 'Pay 5' },
      { type: 'ai', toolCalls: [{ name: 'pay', status: 'done', output: 'paid (new)' }] },
      { type: 'ai', content: 'Pay 5: paid (new)' },
    ])
  })

  test('is answered once, by its user, with a decision that makes sense', async () => {
    const { here, runId } = await waiting()
    const resume = (body: unknown, did?: string) =>
      here.call('POST', `/runs/${runId}/resume`, body, did)
    expect((await resume({ decision: 'approve' }, 'did:key:zOther')).status).toBe(404)
    expect((await resume({ decision: 'maybe' })).status).toBe(400)
    expect((await resume({ decision: 'edit' })).status).toBe(400)
    expect((await resume({ decision: 'edit', args: [] })).status).toBe(400)
    const path = `/runs/${runId}/resume`
    const [a, b] = await Promise.all([
      here.stream(path, { decision: 'reject' }),
      here.stream(path, { decision: 'approve' }),
    ])
    expect([a.status, b.status].sort()).toEqual([200, 409])
    const [won, lost] = a.status === 200 ? [a, b] : [b, a]
    expect((await won.rest()).at(-1)?.data.status).toBe('finished')
    expect(await lost.json()).toMatchObject({
      code: 'CONFLICT',
      message: expect.stringMatching(/answered already/),
    })
    expect((await resume({ decision: 'approve' })).status).toBe(409)
  })

  test('waits no more when the conversation went on, and its request to the tool is answered', async () => {
    const { here, sessionId, runId } = await waiting()
    await (await here.stream(`/messages/${sessionId}`, { message: 'thanks' })).rest()
    const late = await here.call('POST', `/runs/${runId}/resume`, { decision: 'approve' })
    expect(late.status).toBe(409)
    expect(late.body.message).toMatch(/interrupted/)
    const { messages } = (await here.call('GET', `/messages/${sessionId}`)).body
    expect(messages[1].toolCalls).toMatchObject([{ name: 'pay', status: 'error' }])
  })

  test('can be stopped while it waits', async () => {
    const { here, sessionId, runId } = await waiting()
    expect((await here.call('POST', '/messages/abort', { sessionId })).body).toEqual({
      success: true,
    })
    expect((await here.call('POST', `/runs/${runId}/resume`, { decision: 'approve' })).status).toBe(
      409,
    )
  })

  test('keeps what the engine tells of a missing delegation, for whoever reads later', async () => {
    const told = { oracleDid: 'did:key:zOracle', reason: 'expired' }
    const here = await replica({
      engine: async (run) => {
        run.emit('delegation_required', told)
        await say(run, 'Please authorise me again.')
        return { status: 'finished' }
      },
      ...where,
    })
    const turn = await here.stream(`/messages/${await here.session()}`, { message: 'Pay 5' })
    const events = await turn.rest()
    expect(events).toContainEqual({ id: 2, event: 'delegation_required', data: told })
    const again = await here.stream(`/runs/${turn.headers.get('x-run-id')}`)
    expect(await again.rest()).toEqual(events)
  })
})

await onEachDatabase('a call of the client’s own tool, with a fake engine', (where) => {
  const asked = async (timeoutMs?: number) => {
    const here = await replica({ engine: locatingEngine, ...where })
    const sessionId = await here.session()
    const body = { message: 'Where am I?', metadata: { timeoutMs } }
    const turn = await here.stream(`/messages/${sessionId}`, body)
    const [, call] = await turn.until(({ event }) => event === 'browser_tool_call')
    const runId = turn.headers.get('x-run-id') ?? ''
    const answer = (result: unknown, did?: string, toolCallId = call?.data.toolCallId) =>
      here.call('POST', `/runs/${runId}/tool-results`, { toolCallId, result }, did)
    const reply = async () => {
      await turn.rest()
      const { messages } = (await here.call('GET', `/messages/${sessionId}`)).body
      return JSON.parse(messages.at(-1).content)
    }
    return { here, sessionId, call, answer, reply }
  }

  test('gets the first answer of its user, and no other', async () => {
    const { call, answer, reply } = await asked()
    expect(call?.data).toMatchObject({ toolName: 'locate', requestId: expect.any(String) })
    expect((await answer('Paris', 'did:key:zOther')).status).toBe(404)
    expect((await answer('Paris', undefined, 'invented')).body).toEqual({ accepted: false })
    const both = await Promise.all([answer({ city: 'Lusaka' }), answer({ city: 'Ndola' })])
    expect(both.map(({ body }) => body.accepted).sort()).toEqual([false, true])
    const first = both[0].body.accepted ? 'Lusaka' : 'Ndola'
    expect(await reply()).toEqual({ result: { city: first } })
    expect((await answer('late')).body).toEqual({ accepted: false })
  })

  test('gets an answer that came by another way than a request', async () => {
    const { here, sessionId, call, reply } = await asked()
    const { toolCallId } = call?.data ?? {}
    const answer = { did: someone, sessionId, toolCallId, error: 'denied' }
    expect(await here.runs.clientResult({ ...answer, did: 'did:key:zOther' })).toBe(false)
    expect(await here.runs.clientResult(answer)).toBe(true)
    expect(await reply()).toEqual({ error: 'denied' })
  })

  test('becomes an error that says so when nobody answers in time', async () => {
    const { answer, reply } = await asked(50)
    expect((await reply()).error).toBe('The client did not answer within 0.05 seconds.')
    expect((await answer('late')).body).toEqual({ accepted: false })
  })
})

await onPostgres(
  'a call of the client’s own tool on another replica, with a fake engine',
  (where) => {
    test('gets the answer that came there', async () => {
      const here = await replica({ engine: locatingEngine, ...where })
      const there = await replica({ engine: locatingEngine, ...where })
      const sessionId = await here.session()
      const turn = await here.stream(`/messages/${sessionId}`, { message: 'Where am I?' })
      const [, call] = await turn.until(({ event }) => event === 'browser_tool_call')
      const path = `/runs/${turn.headers.get('x-run-id')}/tool-results`
      const body = { toolCallId: call?.data.toolCallId, result: 'Lusaka' }
      expect((await there.call('POST', path, body)).body).toEqual({ accepted: true })
      await turn.rest()
      const { messages } = (await there.call('GET', `/messages/${sessionId}`)).body
      expect(JSON.parse(messages.at(-1).content)).toEqual({ result: 'Lusaka' })
    })

    test('and whoever watches the session there hears of its runs', async () => {
      const here = await replica({ engine: locatingEngine, ...where })
      const there = await replica({ engine: locatingEngine, ...where })
      const sessionId = await here.session()
      const heard = Promise.withResolvers<string>()
      const stop = there.runs.watch(sessionId, { onRun: heard.resolve })
      const turn = await here.stream(`/messages/${sessionId}`, { message: 'Where am I?' })
      expect(await heard.promise).toBe(turn.headers.get('x-run-id'))
      const events = await there.runs.subscribe(await heard.promise)
      expect((await events.next()).value).toMatchObject({ event: 'run' })
      stop()
    })
  },
)

await onEachDatabase('a turn that a plugin starts, with a fake engine', (where) => {
  test('is a run like any other: its events come back, and its signal stops it', async () => {
    const here = await replica({
      engine: async (run) => {
        run.emit('message', { content: `${run.user.did} ${run.user.can('pay')}` })
        while (run.request.message === 'wait' && !run.signal.aborted) await sleep(5)
        await say(run, 'Done.')
        return { status: run.signal.aborted ? 'aborted' : 'finished' }
      },
      ...where,
    })
    const seen: unknown[] = []
    const user = { did: someone }
    for await (const event of here.runs.turnsOf('post').start({ user, message: 'Hi' })) {
      const says = event.event === 'message' && event.data.content
      seen.push([event.seq, event.event, event.event === 'done' ? event.data.status : says])
    }
    expect(seen).toEqual([
      [1, 'run', false],
      [2, 'message', `${someone} false`],
      [3, 'done', 'finished'],
    ])
    const stop = new AbortController()
    const session = await here.session()
    const turn = here.runs.turnsOf('post').start({
      user: fakeUser(someone),
      session,
      message: 'wait',
      signal: stop.signal,
    })
    let last: unknown
    for await (const event of turn) {
      if (event.event === 'message') stop.abort()
      if (event.event === 'done') last = event.data.status
    }
    expect(last).toBe('aborted')
    expect((await here.call('GET', `/messages/${session}`)).body.messages).toHaveLength(2)
    const theirs = { did: 'did:key:zSomebodyElse' }
    const intruding = here.runs.turnsOf('post').start({ user: theirs, session, message: 'Hi' })
    await expect(intruding[Symbol.asyncIterator]().next()).rejects.toMatchObject({
      code: 'NOT_FOUND',
    })
  })
})
