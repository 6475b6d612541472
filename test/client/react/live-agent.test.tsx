import { renderToString } from 'react-dom/server'
import { expect, it } from 'vitest'
import { useLiveAgent, type LiveAgent } from '../../../client/live-agent.ts'
import { OraclesProvider } from '../../../client/index.ts'
import { testOracle, testWallet } from '../oracle.ts'
import { hook, until } from '../page.ts'
import calls from '../../../plugins/calls/index.ts'

const published: readonly (keyof LiveAgent)[] = [
  ...(['room', 'isCalling', 'isConnecting', 'isReady', 'isConfigReady'] as const),
  ...(['sessionStarted', 'sessionViewVisible', 'callAgent', 'endCall'] as const),
]
const own: readonly (keyof LiveAgent)[] = [
  ...(['state', 'captions', 'isMuted', 'setMuted', 'isCameraOn', 'setCamera', 'say'] as const),
  ...(['interrupt', 'levels', 'approval', 'decide', 'hearing', 'voice', 'security'] as const),
  ...(['seconds', 'error'] as const),
]
const wanted = { callType: 'audio', sessionId: 's', userDid: 'did:key:z' } as const

it('has the published fields and its own, says where sound goes, and room is what pages use', async () => {
  await using oracle = await testOracle({
    plugins: [calls],
    env: { CALLS_HEARING: 'typed', CALLS_VOICE: 'none' },
  })
  const toasts: string[] = []
  const used = hook(
    () =>
      useLiveAgent(
        oracle.oracleDid,
        undefined,
        undefined,
        ({ description }) => toasts.push(description),
        oracle.overrides,
      ),
    (child) => oracle.provided(child),
  )
  expect(used.now).toMatchObject({ isConfigReady: false, state: 'idle', error: null })
  await until(() => used.now.hearing)
  expect(used.now).toMatchObject({
    isConfigReady: true,
    hearing: { by: 'typed', where: 'device' },
    voice: { by: 'none', where: 'device', name: 'captions' },
  })
  for (const field of [...published, ...own].filter((name) => name !== 'security'))
    expect(used.now, field).toHaveProperty(field)
  expect(used.now.levels()).toEqual({ you: 0, agent: 0 })
  expect(used.now.room).toMatchObject({ name: '', state: 'disconnected' })
  expect(used.now.room.localParticipant).toMatchObject({
    isMicrophoneEnabled: false,
    isCameraEnabled: false,
  })
  await expect(used.now.setMuted(false)).rejects.toMatchObject({ code: 'call_ended' })
  // This window has neither sound nor connections.
  const failed = await used.now.callAgent(wanted).catch((error: unknown) => error)
  expect(failed).toMatchObject({ code: 'media_unavailable' })
  expect(toasts).toEqual(['Failed to start call: This browser makes no calls.'])
  expect(used.now).toMatchObject({ isCalling: false, sessionStarted: false, state: 'ended' })
  await used.now.endCall()
  await used.now.room.disconnect()
})

it('an oracle without the plugin says which one is missing', async () => {
  await using oracle = await testOracle({ plugins: [] })
  const used = hook(
    () => useLiveAgent(oracle.oracleDid, undefined, undefined, undefined, oracle.overrides),
    (child) => oracle.provided(child),
  )
  const error = await used.now.callAgent(wanted).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({
    code: 'plugin_not_available',
    message: expect.stringContaining('"calls" plugin'),
  })
})

it('a server renders it without asking anybody', async () => {
  const wallet = await testWallet()
  const Probe = () => <p>{useLiveAgent('did:key:z').state}</p>
  expect(renderToString(<OraclesProvider {...wallet}>{<Probe />}</OraclesProvider>)).toBe(
    '<p>idle</p>',
  )
  expect(wallet.minted).toEqual({ delegations: 0, invocations: 0 })
})
