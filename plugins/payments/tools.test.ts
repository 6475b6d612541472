import { expect, test } from 'vitest'
import { scriptedModel } from '#core/testing'
import { paidApp, settledAccount } from '../../test/support/paid-app.ts'

const call = (name: string, args: object = {}) => ({ call: name, args })

test('the agent reads what the user owes and what the last turns of this conversation cost, and nothing of others', async () => {
  const model = scriptedModel([
    'Said to another.',
    'One.',
    [call('load_capability', { names: ['payments'] })],
    [call('get_account'), call('explain_charge')],
    'You owe 0.005 DEV.',
  ])
  const app = await paidApp({ model })
  const other = await app.user()
  await other.say('Hello')
  await settledAccount(other)
  const user = await app.user()
  const { sessionId } = await user.say('Hello')
  await settledAccount(user)
  await user.say('What do I owe you?', { sessionId })
  const results = model.requests.at(-1)?.messages.filter(({ role }) => role === 'tool') ?? []
  const [account, costs] = results.slice(-2).map(({ content }) => JSON.parse(String(content)))
  expect(account).toMatchObject({
    did: user.did,
    balance: '0',
    owed: '5000',
    held: '5000',
    credit: '10000',
    available: '0',
  })
  expect(costs).toEqual({
    denom: 'udev',
    charges: [
      expect.objectContaining({ sessionId, status: 'held' }),
      expect.objectContaining({
        sessionId,
        status: 'due',
        amount: '5000',
        lines: [{ what: 'turn', amount: '5000' }],
      }),
    ],
  })
})

test('no tool pays: both read', async () => {
  const app = await paidApp()
  const user = await app.user()
  const { plugins } = (await user.get('/capabilities')).body
  const { tools } = plugins.find(({ name }: { name: string }) => name === 'payments')
  expect(tools).toEqual([
    expect.objectContaining({ name: 'get_account', effect: 'read' }),
    expect.objectContaining({ name: 'explain_charge', effect: 'read' }),
  ])
})
