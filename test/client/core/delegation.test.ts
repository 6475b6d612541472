import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { scriptedModel } from '#core/testing'
import { testOracle } from '../oracle.ts'
import { until } from '../page.ts'

const call = (name: string, args: unknown = {}) => ({ call: name, args })

it('a delegation that the turn misses is made and handed in, and the turn goes on', async () => {
  const notes = definePlugin({
    name: 'notes',
    summary: 'Keeps notes.',
    visibility: 'always',
    tools: {
      write: {
        description: 'Writes.',
        effect: 'write',
        can: { can: 'notes/write' },
        input: z.object({}),
        run: () => 'written',
      },
    },
  })
  const model = scriptedModel([call('write'), 'I could not.', call('write'), 'Written.'])
  await using oracle = await testOracle({ plugins: [notes], model })
  const { oracleDid, overrides, wallet } = oracle
  let isSilent = true
  // At first the wallet gives a delegation for another oracle, which the server does not take.
  const client = oracle.tab({
    createDelegation: async (did) =>
      isSilent ? { serialized: '', expiresAt: Date.now() + 300_000 } : wallet.createDelegation(did),
  })
  const chat = client.chat({ oracleDid, overrides, sessionId: await oracle.session() })
  chat.subscribe(() => {})
  await until(() => !chat.getSnapshot().isLoading)
  isSilent = false
  await chat.sendMessage('Write')
  await until(() => oracle.proxy.to(/^\/delegation/, 'POST').length === 1)
  await chat.sendMessage('Once more')
  expect(chat.getSnapshot().messages.at(-1)?.content).toBe('Written.')
})
