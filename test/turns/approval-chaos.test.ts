import { afterEach, expect, test } from 'vitest'
import { callsTo } from '../../core/testing/calls.ts'
import { createWallet } from '../../core/testing/wallet.ts'
import { killChildren } from '../support/child.ts'
import { openOffice, patient } from '../support/clerk.ts'
import { onEachDatabase } from '../support/each-database.ts'

afterEach(killChildren)

/** What an upgrade between the question and its answer changes, and what becomes of an approved call. */
const upgrades = [
  ['nothing has changed', undefined, { status: 'done' }],
  ['the tool takes other arguments by now', 'schema', { status: 'error', error: /do not fit/ }],
  ['the plugin of the tool is gone', 'gone', { status: 'error', error: /no tool/i }],
] as const

await onEachDatabase('a question that outlives its server', (where) => {
  test.for(upgrades)(
    'is approved an hour later at another one, and %s',
    { timeout: 120_000 },
    async ([, upgrade, outcome]) => {
      const office = await openOffice(where)
      const first = await office.serve()
      const { sessionId } = (await first.post('/sessions', {})).body
      const asked = await first.send(sessionId, 'Call pay {"amount":5}')
      expect(asked.events.at(-1)).toMatchObject({ event: 'done', data: { status: 'waiting' } })
      const next = { user: { did: office.did }, session: sessionId, message: 'Hello again' }
      expect(await first.start(next)).toMatchObject({ state: 'queued' })
      await first.kill()
      await office.rows(`update kernel_runs set created_at = created_at - 3600000,
        ended_at = ended_at - 3600000 where session_id = '${sessionId}' returning id`)

      const second = await office.serve({ upgrade })
      expect((await second.get(`/sessions/${sessionId}/run`)).body).toMatchObject({
        waiting: { runId: asked.runId },
        waitingTurns: 1,
      })
      const answer = await second.decide(asked.runId, 'approve')
      expect(answer).toMatchObject({ status: 200 })
      const called = answer.events.filter(({ event }) => event === 'tool_call').at(-1)?.data
      expect(called).toMatchObject({ toolName: 'pay', status: outcome.status })
      if ('error' in outcome) expect(called.error).toMatch(outcome.error)
      expect(answer.events.at(-1)).toMatchObject({ event: 'done', data: { status: 'finished' } })
      expect(await second.decide(asked.runId, 'approve')).toMatchObject({ status: 409 })
      expect(office.of('paid')).toHaveLength(upgrade ? 0 : 1)

      // The turn that waited behind the question begins, and the session goes on.
      const free = async () => (await second.get(`/sessions/${sessionId}/run`)).body
      await expect.poll(free, patient).toEqual({ run: null, waitingTurns: 0 })
      const said = await second.send(sessionId, 'And now?')
      expect(said.events.at(-1)).toMatchObject({ data: { status: 'finished' } })
      // The job of each end, and not those of the schedule that the upgrade has made faster.
      const ofEnds = () => office.of('job').filter(({ runId }) => runId !== undefined)
      await expect.poll(() => new Set(ofEnds().map(({ key }) => key)).size, patient).toBe(3)
      await office.close()
      const chain = (await office.ends()).filter(({ runId }) => runId === asked.runId)
      expect(chain).toMatchObject([
        { status: 'finished', tools: [{ name: 'pay', outcome: upgrade ? 'failed' : 'done' }] },
      ])
      expect(await office.ends()).toHaveLength(3)
    },
  )
})

await onEachDatabase('a result that was cut', (where) => {
  test('is read on after the death of its server, and by nobody else', async () => {
    const office = await openOffice(where)
    const first = await office.serve()
    const { sessionId } = (await first.post('/sessions', {})).body
    await first.send(sessionId, 'Hello')
    await first.send(sessionId, 'Call list')
    const results = () =>
      office.of('asked').flatMap(({ result }) => (result ? [String(result)] : []))
    const handle = /"handle":"(\w+)"/.exec(results().at(-1) ?? '')?.[1] ?? ''
    expect(handle).toBe('r2')
    await first.kill()
    const second = await office.serve()
    const read = `Call read_result {"handle":"${handle}","from":5990}`
    await second.send(sessionId, read)
    expect(results().at(-1)).toContain('Item number 5999')

    // Somebody else has a result too, and so the tool, but not this handle.
    const guest = await createWallet()
    const calls = callsTo(
      () => second.url,
      async () => guest.headers((await second.get('/.well-known/oracle.json')).body.did),
    )
    const theirs = (await calls.post('/sessions', {})).body.sessionId
    const ask = (message: string) => calls.post(`/messages/${theirs}`, { message, stream: false })
    await ask('Call list')
    expect(results().at(-1)).toContain('"handle":"r1"')
    await ask(read)
    expect(results().at(-1)).toMatch(/There is no result ..r2/)
  })
})
