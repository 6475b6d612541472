import { expect, test } from 'vitest'
import { z } from 'zod'
import { attended, definePlugin, RuntimeError } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep } from '#core/testing'

const causes: unknown[] = []
/** The door of a protocol of its own: a turn, and the answer to its question. */
const door = definePlugin({
  name: 'door',
  summary: 'Speaks a protocol.',
  visibility: 'always',
  setup: ({ tools }) => ({ tools }),
  runs: { end: ({ cause }) => void causes.push(cause) },
  tools: {
    look: {
      description: 'Looks.',
      effect: 'read',
      foreign: false,
      input: z.object({}),
      run: () => 1,
    },
    note: { description: 'Notes.', input: z.object({}), run: () => 'noted' },
    wipe: { description: 'Wipes.', approve: true, input: z.object({}), run: () => 'wiped' },
    ask: {
      description: 'Asks, or not.',
      effect: 'read',
      foreign: false,
      input: z.object({ all: z.boolean() }),
      approve: ({ all }) => all,
      run: () => 1,
    },
  },
  routes: {
    'POST /door/:session': {
      input: z.object({ session: z.string(), message: z.string() }),
      answers: { 200: ['text/event-stream'] },
      run: ({ session, message }, { user, turns, koa, signal }) =>
        turns.start({ user, session, message, approvals: 'events', ...attended({ signal, koa }) }),
    },
    'POST /door/:session/yes': {
      answers: { 200: ['text/event-stream'] },
      async run({ session }, { user, turns, koa, signal: leaving }) {
        const { waiting } = await turns.open({ user, session })
        const { reader, signal } = attended({ signal: leaving, koa })
        const runId = waiting?.runId ?? ''
        return turns.resume({ user, runId, decision: 'approve', reader, signal })
      },
    },
    'GET /door/quick': {
      async run(_, { user, self }) {
        const asksNobody = self.tools.asksNobody({ user })
        const of = ['look', 'note', 'wipe', 'ask', 'none'].map(
          async (name) => [name, await asksNobody(name)] as const,
        )
        return Object.fromEntries(await Promise.all(of))
      },
    },
  },
})

async function open(steps: readonly ScriptedStep[]) {
  const model = scriptedModel(steps)
  const app = await testApp({ plugins: [door], model })
  const user = await app.user()
  const authorization = `Bearer ${(await user.post('/keys', { name: 'a client' })).body.key}`
  /** Asks, and leaves when the function that comes back is called. */
  const ask = (path: string, alone?: string) => {
    const leaving = new AbortController()
    const answer = fetch(`${app.url}/door/${path}`, {
      method: 'POST',
      headers: {
        authorization,
        'content-type': 'application/json',
        ...(alone !== undefined && { 'x-alone': alone }),
      },
      body: JSON.stringify({ message: 'Go' }),
      signal: leaving.signal,
    }).then(async (response) => ({ status: response.status, text: await response.text() }))
    answer.catch(() => undefined)
    return { answer, leave: () => leaving.abort() }
  }
  return { model, app, user, ask, [Symbol.asyncDispose]: () => app.close() }
}

test('a turn ends with its connection, some time after it, or goes on, as the client says', async () => {
  causes.length = 0
  const stopped: string[] = []
  const going = Promise.withResolvers<void>()
  const until =
    (name: string): ScriptedStep =>
    ({ signal }) =>
      new Promise((resolve) => {
        void going.promise.then(() => resolve('The end.'))
        signal.addEventListener('abort', () => {
          stopped.push(name)
          resolve('Too late.')
        })
      })
  await using at = await open([until('at once'), until('soon'), until('never'), until('usual')])
  const begun = async (session: string, alone: string | undefined, nth: number) => {
    const { leave } = at.ask(session, alone)
    await expect.poll(() => at.model.requests.length).toBe(nth)
    leave()
  }
  await begun('a', '0', 1)
  await expect.poll(() => [stopped, causes]).toEqual([['at once'], ['stopped']])
  await begun('b', '1', 2)
  await expect
    .poll(() => [stopped, causes])
    .toEqual([
      ['at once', 'soon'],
      ['stopped', 'alone'],
    ])
  await begun('c', 'never', 3)
  await begun('d', undefined, 4)
  going.resolve()
  await expect.poll(() => causes.slice(2)).toEqual([undefined, undefined])
  expect(stopped).toEqual(['at once', 'soon'])
})

test('what goes on after an answer ends with the connection, too', async () => {
  const stopped = Promise.withResolvers<void>()
  const held: ScriptedStep = ({ signal }) =>
    new Promise((resolve) =>
      signal.addEventListener('abort', () => {
        stopped.resolve()
        resolve('Too late.')
      }),
    )
  await using at = await open([call('wipe'), held])
  expect((await at.ask('a', '0').answer).text).toContain('"waiting"')
  const { leave } = at.ask('a/yes', '0')
  await expect.poll(() => at.model.requests.length).toBe(2)
  leave()
  await stopped.promise
})

test('a header that says nothing is refused before anything begins', async () => {
  await using at = await open([])
  for (const alone of ['-1', '1.5', 'soon', '3601', '99999', '1e3', '0x1'])
    expect((await at.ask('a', alone).answer).status, alone).toBe(400)
  expect(at.model.requests).toHaveLength(0)
})

test('a turn goes on for thirty seconds without a reader where nobody says otherwise', () => {
  const { signal } = new AbortController()
  expect(attended({ signal }).whenAlone).toEqual({ stopAfterMs: 30_000 })
  expect(attended({ signal, stopAfterMs: 5 }).whenAlone).toEqual({ stopAfterMs: 5 })
})

test('a server that closes is no client that leaves', () => {
  const closing = new AbortController()
  const { signal } = attended({ signal: closing.signal, stopAfterMs: 0 })
  closing.abort(new RuntimeError('UNAVAILABLE', 'The server closes.'))
  expect(signal?.aborted).toBe(false)
  const leaving = new AbortController()
  const left = attended({ signal: leaving.signal, stopAfterMs: 0 }).signal
  leaving.abort()
  expect(left?.aborted).toBe(true)
  expect(attended({ signal: leaving.signal, stopAfterMs: 0 }).signal?.aborted).toBe(true)
})

test('a tool asks nobody where it reads and never asks', async () => {
  await using at = await open([])
  expect((await at.user.get('/door/quick')).body).toEqual({
    ...{ look: true, note: false, wipe: false, ask: false, none: false },
  })
})
