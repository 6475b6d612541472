import { expect, test } from 'vitest'
import { definePlugin, type Turns } from '#core'
import { scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'

const half: ScriptedStep = { text: 'Half of it', ended: 'length' }

test('the end of a turn says why the last answer ended early, and no model is told', async () => {
  const model = scriptedModel([half, 'All of it.', { text: 'A start', ended: 'content_filter' }])
  const told = Promise.withResolvers<Turns>()
  const starter = definePlugin({
    name: 'starter',
    summary: 'Starts turns.',
    visibility: 'silent',
    setup: ({ turns }) => told.resolve(turns),
  })
  await using app = await testApp({ model, plugins: [starter] })
  const user = await app.user()
  const first = await user.say('Tell')
  expect(first.of('done')).toMatchObject([{ status: 'finished', ended: 'length' }])
  const second = await user.say('Go on', { sessionId: first.sessionId })
  expect(second.of('done')[0]).not.toHaveProperty('ended')
  expect(JSON.stringify(model.requests[1]?.messages)).toContain('Half of it')
  expect(JSON.stringify(model.requests[1]?.messages)).not.toContain('ended')
  const turns = await told.promise
  const turn = turns.start({ user: { did: user.did }, message: 'Tell' })
  expect(await turn.ended).toEqual({
    status: 'finished',
    text: 'A start',
    ended: 'content_filter',
  })
})

test('an answer that a layer has made whole did not end early', async () => {
  const model = scriptedModel([half])
  const goesOn = definePlugin({
    name: 'goes-on',
    summary: 'Goes on where an answer was cut off.',
    visibility: 'silent',
    middleware: {
      async model({ say }, next) {
        const { ended, ...reply } = await next()
        if (ended) say({ text: ', and the rest.' })
        return { ...reply, content: `${reply.content}, and the rest.` }
      },
    },
  })
  await using app = await testApp({ model, plugins: [goesOn] })
  const said = await (await app.user()).say('Tell')
  expect(said.text).toBe('Half of it, and the rest.')
  expect(said.of('done')).toMatchObject([{ status: 'finished' }])
  expect(said.of('done')[0]).not.toHaveProperty('ended')
})

await onEachDatabase('an answer that ended early', ({ databaseUrl }) => {
  test('is known to have done so by the process that takes its turn over', async () => {
    const held = Promise.withResolvers<void>()
    let count = 0
    let turns: Turns | undefined
    const holds = definePlugin({
      name: 'holds',
      summary: 'Holds the first process up after the answer.',
      visibility: 'silent',
      setup: (boot) => void (turns = boot.turns),
      middleware: {
        async turn(_, next) {
          await next()
          if (++count === 1) await held.promise
        },
      },
    })
    const model = scriptedModel([half])
    await using app = await testApp({
      model,
      plugins: [holds],
      env: {
        RUN_LEASE_MS: '1000',
        ...(databaseUrl !== undefined && { DATABASE_URL: databaseUrl }),
      },
    })
    const user = await app.user()
    const { sessionId } = (await user.post('/sessions', {})).body
    const cut = user.say('Tell', { sessionId }).catch(() => undefined)
    const newest = async () => (await user.get(`/messages/${sessionId}`)).body.messages.at(-1)
    await expect.poll(newest, { timeout: 20_000 }).toMatchObject({ content: 'Half of it' })
    const { run } = await turns!.open({ user: { did: user.did }, session: sessionId })
    await app.crash()
    held.resolve()
    await cut
    await app.again()
    const ends = []
    for await (const { event, data } of turns!.events({
      user: { did: user.did },
      runId: run!.runId,
    }))
      if (event === 'done') ends.push(data)
    expect(ends).toMatchObject([{ status: 'finished', ended: 'length' }])
    expect(model.requests).toHaveLength(1)
  }, 60_000)
})
