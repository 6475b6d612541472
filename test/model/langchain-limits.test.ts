import { expect, it } from 'vitest'
import type { RuntimeError } from '#core'
import { LangChainModel } from '../../core/runtime/model/langchain.ts'
import { FakeChat } from '../support/fake-chat.ts'
import { answered } from '../support/model-of.ts'
import { ask } from '../support/model-request.ts'

const fault = (chat: FakeChat, limits: ConstructorParameters<typeof LangChainModel>[1]) =>
  answered(new LangChainModel(chat, limits).stream(ask('Hello'))).then(
    () => expect.unreachable(),
    (error: RuntimeError) => error,
  )

it('a chat model of LangChain that falls silent is a timeout, and one that never stops is too long', async () => {
  const silent = new FakeChat(async function* () {
    yield { content: 'So' }
    await new Promise(() => {})
  })
  expect((await fault(silent, { idleMs: 30 })).code).toBe('MODEL_TIMEOUT')
  const endless = new FakeChat(function* () {
    for (;;) yield { content: 'again '.repeat(100) }
  })
  expect((await fault(endless, { maxAnswer: 10_000 })).code).toBe('MODEL_ANSWER_TOO_LONG')
})
