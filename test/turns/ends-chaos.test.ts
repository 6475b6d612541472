import { afterEach, expect, test } from 'vitest'
import { killChildren } from '../support/child.ts'
import { type ClerkServer, type Office, openOffice, patient } from '../support/clerk.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { openStream } from '../support/event-stream.ts'

afterEach(killChildren)

const session = async (server: ClerkServer): Promise<string> =>
  (await server.post('/sessions', {})).body.sessionId

/** Begins an answer that stands still after its first word. */
async function holding(server: ClerkServer, sessionId: string): Promise<void> {
  const url = `${server.url}/messages/${sessionId}`
  const stream = await openStream(url, await server.headers(), { message: 'Hold shut' })
  await stream.until(({ event }) => event === 'message')
  void stream.rest().catch(() => undefined)
}

/** Every way to an end, and what is told of it. */
const ways: Readonly<
  Record<string, { go(server: ClerkServer, office: Office): Promise<string>; end: object }>
> = {
  finished: {
    async go(server) {
      const sessionId = await session(server)
      await server.send(sessionId, 'Hello')
      return sessionId
    },
    end: { status: 'finished', said: true, reply: 'Well, that is it.' },
  },
  failed: {
    async go(server) {
      const sessionId = await session(server)
      await server.send(sessionId, 'Fail')
      return sessionId
    },
    end: { status: 'failed', said: true },
  },
  stopped: {
    async go(server) {
      const sessionId = await session(server)
      await holding(server, sessionId)
      await server.post('/messages/abort', { sessionId })
      return sessionId
    },
    end: { status: 'aborted', cause: 'stopped', said: true, reply: 'Well, ' },
  },
  superseded: {
    async go(server) {
      const sessionId = await session(server)
      await holding(server, sessionId)
      await server.send(sessionId, 'Something else')
      return sessionId
    },
    end: { status: 'interrupted', cause: 'superseded', said: true },
  },
  deleted: {
    async go(server) {
      const sessionId = await session(server)
      await holding(server, sessionId)
      await server.delete(`/sessions/${sessionId}`)
      return sessionId
    },
    end: { status: 'interrupted', cause: 'deleted', reply: '' },
  },
  approved: {
    async go(server) {
      const sessionId = await session(server)
      const { runId } = await server.send(sessionId, 'Call pay {"amount":5}')
      await server.decide(runId, 'approve')
      return sessionId
    },
    end: { status: 'finished', tools: [{ name: 'pay', plugin: 'till', outcome: 'done' }] },
  },
  'stopped while a person is asked': {
    async go(server) {
      const sessionId = await session(server)
      await server.send(sessionId, 'Call pay {"amount":5}')
      await server.post('/messages/abort', { sessionId })
      return sessionId
    },
    end: { status: 'aborted', cause: 'stopped' },
  },
  'taken over': {
    async go(server) {
      const sessionId = await session(server)
      await holding(server, sessionId)
      return sessionId
    },
    end: { status: 'finished', said: true },
  },
}

await onEachDatabase('the end of a run', (where) => {
  test(
    'is told once, whatever the end is, though telling fails and processes die meanwhile',
    { timeout: 180_000 },
    async () => {
      const office = await openOffice(where)
      const first = await office.serve({ failingEnds: 1_000 })
      const sessions = new Map<string, string>()
      for (const [name, way] of Object.entries(ways))
        sessions.set(name, await way.go(first, office))
      // Eight ends and one more of the message that superseded; the one that holds has not come to its end.
      const ended = () => new Set(office.of('end').map(({ runId }) => runId)).size
      await expect.poll(ended, patient).toBe(8)
      await first.kill()
      office.open('shut')
      // The second one dies as well, while it tells.
      const second = await office.serve({ failingEnds: 3 })
      const before = office.of('end').length
      await expect.poll(() => office.of('end').length, patient).toBeGreaterThan(before)
      // A run with which two processes die before it gets on is set aside, and is not what this is about.
      await expect.poll(ended, patient).toBe(9)
      await second.kill()
      const third = await office.serve()
      const delivered = () => new Set(office.of('job').map(({ runId }) => runId)).size
      await expect.poll(delivered, { ...patient, timeout: 100_000 }).toBe(9)
      expect((await third.get('/sessions')).status).toBe(200)
      await office.close()

      const ends = await office.ends()
      expect(new Set(ends.map(({ runId }) => runId)).size).toBe(9)
      expect(ends).toHaveLength(9)
      for (const [name, sessionId] of sessions)
        expect(ends.filter((end) => end.sessionId === sessionId)).toContainEqual(
          expect.objectContaining(ways[name]?.end ?? {}),
        )
      const own = ends.map(({ runId }) => `'${runId}'`).join()
      expect(
        await office.rows(`select 1 as left_over from kernel_unsettled where root_id in (${own})`),
      ).toEqual([])
      // One job for each end: what the failed tries asked for was undone with them.
      const jobs = await office.rows<{ key: string }>(
        `select key from kernel_jobs where name = 'deliver' and key in (${own})`,
      )
      expect(jobs).toHaveLength(9)
    },
  )
})
