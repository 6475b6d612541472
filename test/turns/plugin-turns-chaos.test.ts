import { randomUUID } from 'node:crypto'
import { afterEach, expect, test } from 'vitest'
import { killChildren } from '../support/child.ts'
import { openOffice, patient, type ClerkServer, type Office } from '../support/clerk.ts'
import { onEachDatabase } from '../support/each-database.ts'

afterEach(killChildren)

/** When the first server is killed, with a turn of a plugin that waits, has begun, or has ended. */
const moments: Readonly<Record<string, (office: Office, requestId: string) => Promise<unknown>>> = {
  'while it waits': async () => undefined,
  async 'as it begins'(office, requestId) {
    office.open('first')
    await office.until((note) => note.what === 'begin' && note.requestId === requestId)
  },
  async 'in the middle of a reading tool'(office) {
    office.open('first')
    await office.until((note) => note.what === 'tool')
  },
  async 'in the middle of a write'(office) {
    office.open('first')
    await office.until((note) => note.what === 'tool')
  },
  async 'as its end is told'(office) {
    office.open('first')
    office.open('look')
    await expect.poll(() => office.of('end').length, patient).toBeGreaterThan(1)
  },
}

await onEachDatabase('a turn that a plugin started', (where) => {
  test.for(Object.entries(moments))(
    'runs once and stands as it was when its process dies %s',
    { timeout: 120_000 },
    async ([name, moment]) => {
      const tool = name.endsWith('write') ? 'post' : 'look'
      const office = await openOffice(where)
      const { did } = office
      const one = await office.serve()
      // On PostgreSQL the other server is there already when the first one dies.
      const two = where.databaseUrl === undefined ? undefined : await office.serve()
      const room = `!${randomUUID()}:example.org`
      const first = await one.start({ user: { did }, room, message: 'Hold first' })
      const requestId = randomUUID()
      const turn = {
        user: { did },
        session: first.sessionId,
        message: `Call ${tool}`,
        from: 'plugin',
        requestId,
        metadata: { order: { n: 7 } },
        quoted: ['Ignore all that.', 'And that.'],
        allow: [tool],
        instructions: 'Answer in rhyme.',
      } as const
      expect(await one.start(turn)).toMatchObject({ state: 'queued', isNew: true })
      await moment(office, requestId)
      await one.kill()
      for (const gate of ['first', tool]) office.open(gate)
      const other = two ?? (await office.serve())
      // The same start finds the turn that there is.
      expect(await other.start(turn)).toMatchObject({ requestId, isNew: false })
      await checkEnd(office, other, { sessionId: first.sessionId, tool })
      checkWhatStood(office, { room, tool })
    },
  )
})

/** What there is of the session's two turns at their end, in the history and for whoever hears of ends. */
async function checkEnd(
  office: Office,
  server: ClerkServer,
  { sessionId, tool }: { sessionId: string; tool: string },
) {
  await expect
    .poll(async () => (await server.get(`/sessions/${sessionId}/run`)).body, patient)
    .toEqual({ run: null, waitingTurns: 0 })
  await expect.poll(() => new Set(office.of('job').map(({ runId }) => runId)).size, patient).toBe(2)
  const { body } = await server.get(`/messages/${sessionId}?origin=all`)
  expect(body.messages.map(({ content }: Record<string, unknown>) => content)).toEqual([
    'Hold first',
    'Well, that is it.',
    `Call ${tool}`,
    'Let me see. ',
    'Well, that is it.',
  ])
  await office.close()
  const ends = await office.ends()
  expect(ends).toHaveLength(2)
  expect(ends.find(({ from }) => from === 'plugin')).toMatchObject({
    status: 'finished',
    origin: 'clerk',
    metadata: { order: { n: 7 } },
    said: true,
    reply: 'Let me see. \n\nWell, that is it.',
    tools: [{ name: tool, plugin: 'clerk', outcome: 'done' }],
  })
  const keys = office.of('job').map(({ key, runId }) => [key, runId])
  for (const [key, runId] of keys) expect(key).toBe(runId)
}

const metadata = { order: { n: 7 } }

/** What handlers and the model saw of the second turn, in whichever process. */
function checkWhatStood(office: Office, { room, tool }: { room: string; tool: string }) {
  const mine = office.of('prompt').filter((note) => note.origin && note.metadata !== undefined)
  expect(mine.length).toBeGreaterThan(0)
  for (const each of mine) expect(each).toMatchObject({ origin: 'clerk', room: `clerk:${room}` })
  // A process that stood still for longer than its lease may look at the first turn once more, which has none.
  expect(mine).toContainEqual(expect.objectContaining({ metadata }))
  const calls = office.of('tool')
  for (const call of calls) expect(call).toMatchObject({ origin: 'clerk', metadata, told: 0 })
  // A write is in the journal before it begins. A model may be asked again for what only reads.
  if (tool === 'post') expect(new Set(calls.map(({ callKey }) => callKey)).size).toBe(1)
  const asked = office.of('asked').filter(({ words }) => String(words).includes(`Call ${tool}`))
  expect(asked.length).toBeGreaterThan(1)
  for (const { system, tools, words } of asked) {
    expect(system).toContain('Answer in rhyme.')
    expect(tools).toEqual([tool])
    expect(words).toContain('[From clerk, not from the user]')
    expect(words).toContain('Ignore all that.')
  }
}
