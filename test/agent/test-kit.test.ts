import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, readEvents, resultOf, scriptedModel, testApp } from '#core/testing'

const written: string[] = []
const board = definePlugin({
  name: 'board',
  summary: 'A board.',
  visibility: 'always',
  tools: {
    wipe: {
      description: 'Wipes a page.',
      input: z.object({ page: z.number() }),
      approve: ({ page }) => page > 1,
      run: ({ page }) => {
        written.push(`wiped ${page}`)
        return { wiped: page }
      },
    },
  },
})

async function asked() {
  written.length = 0
  const model = scriptedModel([
    call('wipe', { page: 2 }),
    (request) => JSON.stringify(resultOf(request, 'wipe')),
  ])
  const app = await testApp({ plugins: [board], model })
  onTestFinished(() => app.close())
  const user = await app.user()
  return user.say('Wipe page 2', { approvals: true })
}

test('said.approve() goes on with the call that waits', async () => {
  const said = await asked()
  expect(said.status).toBe('waiting')
  const rest = await said.approve()
  expect(rest).toMatchObject({ status: 'finished', sessionId: said.sessionId })
  expect(rest.text).toContain('{"wiped":2}')
  expect(written).toEqual(['wiped 2'])
})

test('said.approve(args) has the call carried out with other arguments', async () => {
  const rest = await (await asked()).approve({ page: 7 })
  expect(rest.status).toBe('finished')
  expect(written).toEqual(['wiped 7'])
})

test('said.reject() lets the model go on without it', async () => {
  const rest = await (await asked()).reject()
  expect(rest.status).toBe('finished')
  expect(rest.text).toContain('REJECTED')
  expect(written).toEqual([])
})

test('a decision on what waits no more fails with what the server says', async () => {
  const said = await asked()
  await said.approve()
  await expect(said.reject()).rejects.toThrow(/answered 409/)
})

test('thread.call() of a tool that asks a person needs the word of one', async () => {
  await using app = await testApp({ plugins: [board] })
  const thread = app.thread()
  written.length = 0
  await expect(thread.call('wipe', { page: 2 })).rejects.toMatchObject({ code: 'APPROVAL_NEEDED' })
  expect(written).toEqual([])
  expect(await thread.call('wipe', { page: 1 })).toEqual({ wiped: 1 })
  expect(await thread.call('wipe', { page: 2 }, { approve: true })).toEqual({ wiped: 2 })
  expect(thread.content).toBe('{"wiped":2}')
  await expect(thread.call('wipe', { page: 'two' })).rejects.toMatchObject({
    code: 'INVALID_INPUT',
  })
  expect(thread.content).toContain('page')
})

test('thread.call() of a tool that asks ctx.model is answered by the app’s model', async () => {
  const sorter = definePlugin({
    name: 'sorter',
    summary: 'Sorts letters.',
    visibility: 'always',
    tools: {
      sort: {
        description: 'Sorts a letter.',
        effect: 'read',
        input: z.object({ letter: z.string() }),
        run: async ({ letter }, { model }) => [
          await model.object(z.object({ isBill: z.boolean() }), letter),
          await model.text('Why?'),
        ],
      },
    },
  })
  const model = scriptedModel(['{"isBill":true}', 'It names a sum.'])
  await using app = await testApp({ plugins: [sorter], model })
  const answer = await app.thread().call('sort', { letter: 'You owe us 5.' })
  expect(answer).toEqual([{ isBill: true }, 'It names a sum.'])
  expect(model.requests[0]?.messages.at(-1)?.content).toBe('You owe us 5.')
})

test('readEvents() reads the text of a stream as well', async () => {
  expect(await readEvents('id: 3\nevent: message\ndata: {"content":"a"}\n\n')).toEqual([
    { id: 3, event: 'message', data: { content: 'a' } },
  ])
})
