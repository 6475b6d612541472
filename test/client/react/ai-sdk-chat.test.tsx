import { useChat } from '@ai-sdk/react'
import { DefaultChatTransport, isToolUIPart, type UIMessage } from 'ai'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp } from '#core/testing'
import aiSdk from '../../../plugins/ai-sdk/index.ts'
import { hook } from '../page.ts'

const asks = definePlugin({
  name: 'asks',
  summary: 'Asks.',
  visibility: 'always',
  tools: {
    wipe: { description: 'Wipes.', approve: true, input: z.object({}), run: () => 'wiped' },
  },
})
const brief = (messages: readonly UIMessage[]) =>
  messages.flatMap(({ parts }) =>
    parts.flatMap((part) => {
      if (part.type === 'text') return part.text
      return isToolUIPart(part) ? part.state : []
    }),
  )

test('useChat of the AI SDK shows a question and what comes of it, and goes on after a reload', async () => {
  const going = Promise.withResolvers<void>()
  const model = scriptedModel([
    call('wipe'),
    'It is gone.',
    async () => {
      await going.promise
      return { text: ['Half. ', 'Whole.'] }
    },
  ])
  await using app = await testApp({ plugins: [aiSdk, asks], model })
  const user = await app.user()
  const { body } = await user.post('/keys', { name: 'a page' })
  const headers = { authorization: `Bearer ${body.key}` }
  const api = `${app.url}/ai-sdk/chat`
  const transport = new DefaultChatTransport({ api, headers })
  const open = (messages: UIMessage[] = [], resume = false) =>
    hook(() =>
      useChat({
        ...{ id: 'mine', transport, messages, resume },
        sendAutomaticallyWhen: ({ messages: all }) =>
          all
            .at(-1)
            ?.parts.some((part) => isToolUIPart(part) && part.state === 'approval-responded') ??
          false,
      }),
    )
  const page = open()
  void page.now.sendMessage({ text: 'Wipe' })
  await expect.poll(() => brief(page.now.messages)).toEqual(['Wipe', 'approval-requested'])
  const part = page.now.messages.at(-1)?.parts.find(isToolUIPart)
  void page.now.addToolApprovalResponse({ id: part?.approval?.id ?? '', approved: true })
  await expect
    .poll(() => brief(page.now.messages))
    .toEqual(['Wipe', 'output-available', 'It is gone.'])
  void page.now.sendMessage({ text: 'Slowly' })
  await expect.poll(() => model.requests.length).toBe(3)
  page.unmount()

  const kept = await (await fetch(`${api}/mine/messages`, { headers })).json()
  const again = open(kept.messages, true)
  await expect.poll(() => again.now.status).toMatch(/submitted|streaming/)
  going.resolve()
  await expect
    .poll(() => brief(again.now.messages))
    .toEqual(['Wipe', 'output-available', 'It is gone.', 'Slowly', 'Half. Whole.'])
  await expect.poll(() => again.now.status).toBe('ready')
})
