import { expect, it } from 'vitest'
import type { Engine } from '../../core/runtime/turns/run.ts'
import { onEachDatabase, onPostgres } from '../support/each-database.ts'
import { say, stopped } from '../support/fake-engines.ts'
import { fakeUser, replica, type Replica, someone } from '../support/replica.ts'

/** Does what its message says. */
const obedient: Engine = async (run) => {
  const { message } = run.request
  if (message === 'ask' && !run.continues) return { status: 'waiting' }
  if (message === 'fail') throw new Error('The engine broke.')
  if (message === 'wait') {
    await new Promise((resolve) => run.signal.addEventListener('abort', resolve, { once: true }))
    return stopped(run, '')
  }
  await say(run, 'Secret words of the reply.')
  return { status: 'finished' }
}

/** Has a plugin begin a turn; resolves to its run. */
async function begin({ runs }: Replica, sessionId: string, message: string, origin = 'helper') {
  const request = { message, origin, from: 'plugin' as const }
  return (await runs.send({ user: fakeUser(someone), sessionId, request })).runId
}

const untilDone = async ({ runs }: Replica, runId: string) => {
  for await (const { event } of await runs.subscribe(runId)) if (event === 'done') return
}

const listed = async ({ notices }: Replica, did = someone) =>
  (await notices.list(did, { limit: 100 })).notices

await onEachDatabase('the turns of a plugin', (where) => {
  const server = () => replica({ engine: obedient, ...where })

  it('tell their user when they end, fail or ask, with ids, a title and no word of the reply', async () => {
    const one = await server()
    const sessionId = await one.session()
    const told = []
    for (const message of ['do it', 'fail', 'ask']) {
      const runId = await begin(one, sessionId, message)
      await untilDone(one, runId)
      told.unshift(runId)
    }
    const notices = await listed(one)
    expect(notices.map(({ kind }) => kind)).toEqual(['asks', 'failed', 'ended'])
    expect(notices.map(({ runId }) => runId)).toEqual(told)
    for (const notice of notices)
      expect(notice).toMatchObject({ plugin: 'helper', title: 'helper', sessionId })
    expect(JSON.stringify(notices)).not.toContain('Secret')
    const { sessions } = (await one.call('GET', '/sessions')).body
    expect(sessions[0]).toMatchObject({ sessionId, unread: 3 })
    await one.notices.see(someone, { sessionId })
    expect((await one.call('GET', '/sessions')).body.sessions[0].unread).toBe(0)
  })

  it('tell of the end after an approval too, and nothing of the run that was answered', async () => {
    const one = await server()
    const sessionId = await one.session('did:key:zAsked')
    const user = fakeUser('did:key:zAsked')
    const { runId } = await one.runs.send({
      user,
      sessionId,
      request: { message: 'ask', origin: 'helper', from: 'plugin' },
    })
    await untilDone(one, runId)
    const next = await one.runs.resume(user, runId, { decision: 'approve' })
    await untilDone(one, next.runId)
    const notices = await listed(one, user.did)
    expect(notices.map(({ kind, runId }) => [kind, runId])).toEqual([
      ['ended', next.runId],
      ['asks', runId],
    ])
  })

  it('say nothing when their user stops them, and the user’s own turns say nothing at all', async () => {
    const one = await server()
    const user = fakeUser('did:key:zQuiet')
    const sessionId = await one.session(user.did)
    const request = { message: 'wait', origin: 'helper', from: 'plugin' as const }
    const stopped = await one.runs.send({ user, sessionId, request })
    await one.runs.abort(user.did, sessionId)
    await untilDone(one, stopped.runId)
    const own = await one.runs.send({ user, sessionId, request: { message: 'do it' } })
    await untilDone(one, own.runId)
    const muted = await one.session(user.did)
    await one.notices.mute(user.did, ['loud'])
    const loud = { message: 'do it', origin: 'loud', from: 'plugin' as const }
    await untilDone(one, (await one.runs.send({ user, sessionId: muted, request: loud })).runId)
    expect(await listed(one, user.did)).toEqual([])
  })

  it('tell only of a question where the words were the user’s own', async () => {
    const one = await server()
    const user = fakeUser('did:key:zByPhone')
    const sessionId = await one.session(user.did)
    for (const message of ['do it', 'fail', 'ask']) {
      const request = { message, origin: 'helper' }
      await untilDone(one, (await one.runs.send({ user, sessionId, request })).runId)
    }
    expect((await listed(one, user.did)).map(({ kind }) => kind)).toEqual(['asks'])
  })

  it('leave nothing behind when the session is deleted', async () => {
    const one = await server()
    const did = 'did:key:zGone'
    const [gone, kept] = [await one.session(did), await one.session(did)]
    for (const sessionId of [gone, kept]) {
      const request = { message: 'do it', origin: 'helper', from: 'plugin' as const }
      await untilDone(one, (await one.runs.send({ user: fakeUser(did), sessionId, request })).runId)
    }
    expect((await one.call('DELETE', `/sessions/${gone}`, undefined, did)).status).toBe(200)
    expect((await listed(one, did)).map(({ sessionId }) => sessionId)).toEqual([kept])
  })
})

await onPostgres('the turns of a plugin on two servers', (where) => {
  it('tell their user once, also when they change hands', async () => {
    const held = Promise.withResolvers<void>()
    const holding: Engine = async (run) => {
      held.resolve()
      await new Promise((resolve) => run.signal.addEventListener('abort', resolve, { once: true }))
      return stopped(run, '')
    }
    const request = { message: 'do it', origin: 'helper', from: 'plugin' as const }
    const user = fakeUser('did:key:zMoved')
    const first = await replica({ engine: holding, ...where })
    const sessionId = await first.session(user.did)
    const { runId } = await first.runs.send({ user, sessionId, request })
    await held.promise
    const second = await replica({ engine: obedient, ...where })
    await first.close()
    await untilDone(second, runId)
    expect((await listed(second, user.did)).map(({ kind, runId }) => [kind, runId])).toEqual([
      ['ended', runId],
    ])
  })
})
