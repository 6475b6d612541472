import { expect, test } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp } from '#core/testing'
import { door, eventsIn } from '../support/door.ts'
import { onEachDatabase } from '../support/each-database.ts'

const tools = [
  {
    name: 'look_up',
    description: 'Looks a thing up.',
    schema: { type: 'object', properties: { what: { type: 'string' } } },
  },
  { name: 'send', description: 'Sends a thing.' },
] as const

const own = definePlugin({
  name: 'own',
  summary: 'Has tools.',
  visibility: 'always',
  tools: {
    add: {
      description: 'Adds.',
      effect: 'read',
      foreign: false,
      input: z.object({ a: z.number(), b: z.number() }),
      run: ({ a, b }) => ({ sum: a + b }),
    },
    wipe: {
      description: 'Wipes.',
      input: z.object({}),
      approve: true,
      run: () => 'wiped',
    },
  },
})

await onEachDatabase('client tools that are parked', ({ databaseUrl }) => {
  const env = databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }

  test('end the run as waiting, all of one step together, and go on with what the client hands in', async () => {
    const at = door()
    const model = scriptedModel([
      [call('look_up', { what: 'tea' }), call('add', { a: 1, b: 2 }), call('send')],
      'All is done.',
    ])
    await using app = await testApp({ plugins: [at.plugin, own], model, env })
    const { did } = await app.user()
    const user = { did }
    const turn = at.turns.start({
      user,
      message: 'Go',
      tools,
      clientTools: 'park',
      timezone: 'Africa/Lusaka',
    })
    const { runId = '', sessionId } = await turn.begun
    const events = await eventsIn(turn)
    const calls = events.find(({ event }) => event === 'client_calls')?.data.calls
    expect(calls).toMatchObject([
      { toolName: 'look_up', args: { what: 'tea' } },
      { toolName: 'send', args: {} },
    ])
    expect(events.at(-1)).toMatchObject({ event: 'done', data: { status: 'waiting' } })
    expect(await at.turns.open({ user, session: sessionId })).toEqual({
      sessionId,
      waiting: { runId, kind: 'client', calls },
    })
    expect(model.requests[0]?.tools.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['look_up', 'send', 'add']),
    )

    const results = [
      { toolCallId: calls[0].toolCallId, result: 'Tea is a drink.' },
      { toolCallId: 'nobody-asked', result: 'ignored' },
    ]
    const other = await app.user()
    await expect(
      at.turns.resume({ user: { did: other.did }, runId, results }).begun,
    ).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await expect(at.turns.resume({ user, runId, decision: 'approve' }).begun).rejects.toMatchObject(
      { code: 'CONFLICT' },
    )
    const resumed = at.turns.resume({ user, runId, results, requestId: 'answer-1' })
    expect(await resumed.ended).toMatchObject({ status: 'finished', text: 'All is done.' })
    const read = model.requests[1]?.messages.filter(({ role }) => role === 'tool')
    expect(read).toMatchObject([
      { name: 'add', content: '{"sum":3}' },
      { name: 'look_up', content: 'Tea is a drink.' },
      { name: 'send', content: expect.stringContaining('The client gave no answer.') },
    ])
    // The same answer again finds what it began, and no other is taken.
    const again = at.turns.resume({ user, runId, results, requestId: 'answer-1' })
    expect((await again.ended).text).toBe('All is done.')
    await expect(at.turns.resume({ user, runId, results }).begun).rejects.toMatchObject({
      code: 'CONFLICT',
    })
    expect(model.remaining).toBe(0)
    const once = await eventsIn(at.turns.events({ user, runId }))
    expect(once).toEqual(events)
  })

  test('wait until a person has approved what stands in the same step', async () => {
    const at = door()
    const model = scriptedModel([[call('send'), call('wipe')], 'Sent and wiped.'])
    await using app = await testApp({ plugins: [at.plugin, own], model, env })
    const { did } = await app.user()
    const user = { did }
    const turn = at.turns.start({
      user,
      message: 'Go',
      tools,
      clientTools: 'park',
      approvals: 'events',
    })
    const asked = await eventsIn(turn)
    expect(asked.map(({ event }) => event)).toContain('interrupt')
    const { runId = '', sessionId } = await turn.begun
    await expect(at.turns.resume({ user, runId, results: [] }).begun).rejects.toMatchObject({
      code: 'CONFLICT',
    })
    const approved = at.turns.resume({ user, runId, decision: 'approve' })
    expect(await approved.ended).toMatchObject({ status: 'waiting' })
    const { waiting } = await at.turns.open({ user, session: sessionId })
    expect(waiting).toMatchObject({ kind: 'client', calls: [{ toolName: 'send' }] })
    const results = (waiting?.calls ?? []).map(({ toolCallId }) => ({
      toolCallId,
      error: 'no net',
    }))
    const end = at.turns.resume({ user, runId: waiting?.runId ?? '', results })
    expect(await end.ended).toMatchObject({ status: 'finished', text: 'Sent and wiped.' })
    const read = model.requests[1]?.messages.filter(({ role }) => role === 'tool')
    expect(read).toMatchObject([
      { name: 'wipe', content: 'wiped' },
      { name: 'send', content: expect.stringContaining('no net') },
    ])
  })

  test('are answered after the server went away', async () => {
    const at = door()
    const model = scriptedModel([call('send'), 'Sent.'])
    await using app = await testApp({ plugins: [at.plugin, own], model, env })
    const { did } = await app.user()
    const turn = at.turns.start({ user: { did }, message: 'Go', tools, clientTools: 'park' })
    const { runId = '' } = await turn.begun
    const calls = (await eventsIn(turn)).find(({ event }) => event === 'client_calls')?.data.calls
    await app.crash()
    await app.again()
    const results = [{ toolCallId: calls[0].toolCallId, result: { ok: true } }]
    const end = at.turns.resume({ user: { did }, runId, results })
    expect(await end.ended).toMatchObject({ status: 'finished', text: 'Sent.' })
  })
})

test('a tool of a client that cannot be offered refuses the turn before anything is made', async () => {
  const at = door()
  await using app = await testApp({ plugins: [at.plugin, own], model: scriptedModel([]) })
  const user = { did: (await app.user()).did }
  const refused = (given: readonly object[]) =>
    at.turns.start({ user, message: 'Go', tools: given as typeof tools }).begun.then(
      () => 'taken',
      (error) => error.code,
    )
  expect(await refused([{ name: 'add' }])).toBe('INVALID_INPUT')
  expect(await refused([{ name: 'a b' }])).toBe('INPUT_INVALID')
  expect(await refused([{ name: 'a' }, { name: 'a' }])).toBe('INPUT_INVALID')
  expect(await refused([{ name: 'a', schema: { type: 'object', x: 'y'.repeat(33_000) } }])).toBe(
    'INPUT_INVALID',
  )
  expect(await refused([{ name: 'a', schema: { $ref: 'https://example.org/x' } }])).toBe(
    'INPUT_INVALID',
  )
  expect(await refused(Array.from({ length: 201 }, (_, i) => ({ name: `t${i}` })))).toBe(
    'INPUT_INVALID',
  )
})

test('a turn that fails at once is refused by `spoke`, and one that speaks is not', async () => {
  const at = door()
  const mayAnswer = Promise.withResolvers<string>()
  const model = scriptedModel([
    new Error('the provider is down'),
    () => mayAnswer.promise,
    'At once.',
  ])
  await using app = await testApp({ plugins: [at.plugin], model })
  const user = { did: (await app.user()).did }
  await expect(at.turns.start({ user, message: 'One' }).spoke).rejects.toMatchObject({
    code: 'INTERNAL',
    status: 500,
  })
  // A turn that takes its time is not waited for to the end.
  const slow = at.turns.start({ user, message: 'Two' })
  await slow.spoke
  mayAnswer.resolve('Late.')
  expect((await slow.ended).text).toBe('Late.')
  const quick = at.turns.start({ user, message: 'Three' })
  await quick.spoke
  expect((await quick.ended).text).toBe('At once.')
})
