import { expect, it } from 'vitest'
import type { ToolsOf } from '#core'
import { scriptedModel } from '#core/testing'
import { renderMessageContent, useChat, type IMessage } from '../../../client/index.ts'
import { testOracle } from '../oracle.ts'
import { mount, until } from '../page.ts'
import type { bank } from './bank.ts'

const onPaymentRequiredError = () => {}

it('components of the chat and of the call render; what is not one does not', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
  const { oracleDid, overrides } = oracle
  const address = { oracleDid, overrides, sessionId: await oracle.session() }
  const place = (name: string, args: unknown) => ({
    name,
    props: {
      id: `${name}-1`,
      args,
      status: 'done' as const,
      toolName: name,
      sessionId: address.sessionId,
      isToolCall: true,
    },
  })
  const Card = ({ title, status }: { title: string; status: string }) => (
    <b>{`${title} ${status}`}</b>
  )
  const ToolCall = ({ toolName, args }: { toolName: string; args: unknown }) => (
    <i>{`${toolName} ${JSON.stringify(args)}`}</i>
  )
  function Page({ own = false }) {
    useChat({ ...address, onPaymentRequiredError, uiComponents: { Card, ToolCall } })
    const content = [
      'Text',
      place('Card', { title: 'T', key: 'k', ref: 'r' }),
      place('look', { a: 1 }),
      place('constructor', {}),
    ]
    return <p>{renderMessageContent(content, own ? { Card } : undefined)}</p>
  }
  const chats = mount(oracle.provided(<Page />))
  chats.render(oracle.provided(<Page />))
  await until(() => chats.container.innerHTML.includes('<b>'))
  expect(chats.container.innerHTML).toBe(
    '<p>Text<b>T done</b><i>look {"a":1}</i><i>constructor {}</i></p>',
  )
  const own = mount(oracle.provided(<Page own />))
  await until(() => own.container.innerHTML === '<p>Text<b>T done</b></p>')
  const alone = mount(<p>{renderMessageContent(place('Card', { title: 'T' }), { Card })}</p>)
  expect(alone.container.innerHTML).toBe('<p><b>T done</b></p>')
})

it('the types of tools flow from a plugin into the messages', () => {
  type Tools = ToolsOf<ReturnType<typeof bank>>
  const show = (message: IMessage<Tools>) =>
    message.toolCalls?.map((one) => {
      if (one.name === 'pay')
        return `${one.args.amount.toFixed(2)} ${one.result?.receipt.toUpperCase()}`
      return undefined
    })
  const message: IMessage<Tools> = {
    id: '1',
    type: 'ai',
    content: '',
    toolCalls: [
      { id: 'c', name: 'pay', args: { amount: 5 }, status: 'done', result: { receipt: 'paid 5' } },
    ],
  }
  expect(show(message)).toEqual(['5.00 PAID 5'])
})
