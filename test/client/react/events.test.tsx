import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError } from '#core'
import { scriptedModel } from '#core/testing'
import {
  useChat,
  useChatAnnouncer,
  useChatEvents,
  useRun,
  type AnyEvent,
} from '../../../client/index.ts'
import { heldModel } from '../../support/held-model.ts'
import { testOracle } from '../oracle.ts'
import { hook, mount, until } from '../page.ts'

const call = (name: string, args: unknown = {}) => ({ call: name, args })
const onPaymentRequiredError = () => {}

it('events are heard as they stream, and a failing turn says what failed', async () => {
  const model = scriptedModel([
    { text: 'Hm.', reasoning: 'Thinking.', calls: [call('break_it')] },
    { text: 'Then', error: new Error('The provider is down.') },
  ])
  const broken = definePlugin({
    name: 'broken',
    summary: 'Breaks.',
    visibility: 'always',
    tools: {
      break_it: {
        description: 'Breaks.',
        effect: 'read',
        input: z.object({}),
        run: () => {
          throw new RuntimeError('CONFLICT', 'It was broken before.')
        },
      },
    },
  })
  await using oracle = await testOracle({ plugins: [broken], model })
  const { oracleDid, overrides } = oracle
  const address = { oracleDid, overrides, sessionId: await oracle.session() }
  const events: AnyEvent[] = []
  const seen = hook(() => {
    useChatEvents(address, (event) => events.push(event))
    return { chat: useChat({ ...address, onPaymentRequiredError }), run: useRun(address) }
  }, oracle.provided)
  await until(() => !seen.now.chat.isLoading)
  await seen.now.chat.sendMessage('Hi')
  await until(() => seen.now.chat.status === 'error')
  const names = events.map(({ eventName }) => eventName)
  expect(names[0]).toBe('run')
  expect(names.slice(-2)).toEqual(['error', 'done'])
  expect(new Set(names)).toEqual(
    new Set(['run', 'reasoning', 'message', 'tool_call', 'error', 'done']),
  )
  expect(seen.now.chat.error).toMatchObject({ code: 'run_failed', serverCode: expect.any(String) })
  expect(seen.now.chat.sendMessageError).toBe(seen.now.chat.error)
  expect(seen.now.run).toMatchObject({ ended: 'failed', toolError: { code: 'tool_failed' } })
  expect(seen.now.chat.messages[1]).toMatchObject({
    reasoning: 'Thinking.',
    isReasoning: false,
    toolCalls: [{ status: 'error', error: expect.stringContaining('broken before') }],
  })
})

it('an announcer speaks when something is to be said, and says nothing of what was there before', async () => {
  const model = heldModel(['The '], ['answer.'], ['Earlier.'])
  await using oracle = await testOracle({ plugins: [], model })
  const { oracleDid, overrides } = oracle
  const address = { oracleDid, overrides, sessionId: await oracle.session() }
  const first = hook(() => useChat({ ...address, onPaymentRequiredError }), oracle.provided)
  await until(() => !first.now.isLoading)
  await first.now.sendMessage('Hi')
  first.unmount()
  const said: string[] = []
  let chat!: ReturnType<typeof useChat>
  function Page() {
    chat = useChat({ ...address, onPaymentRequiredError })
    const announcer = useChatAnnouncer(address)
    if (said.at(-1) !== announcer.children) said.push(announcer.children)
    return <div {...announcer} />
  }
  const { container } = mount(oracle.provided(<Page />))
  await until(() => chat.messages.length === 2)
  expect(said).toEqual([''])
  const sending = chat.sendMessage('And now?')
  await until(() => said.length === 2)
  model.goOn()
  await sending
  await until(() => said.length === 3)
  expect(said).toEqual(['', 'Answering.', 'The answer.'])
  expect(container.querySelector('[role=status][aria-live=polite]')?.textContent).toBe(
    'The answer.',
  )
})
