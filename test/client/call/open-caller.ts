import { createElement, StrictMode, type ReactNode } from 'react'
import { onTestFinished } from 'vitest'
import { scriptedModel, type ScriptedStep } from '#core/testing'
import { useLiveAgent } from '../../../client/live-agent.ts'
import calls from '../../../plugins/calls/index.ts'
import { testOracle } from '../oracle.ts'
import { hook } from '../page.ts'

export const patient = 30_000
const speech = { CALLS_HEARING: 'typed', CALLS_VOICE: 'none' }

/** An oracle that can be called, and a component that can call it, in strict mode. */
export async function openCaller(
  steps: readonly ScriptedStep[] = [],
  env: Record<string, string> = {},
) {
  const oracle = await testOracle({
    plugins: [calls],
    model: scriptedModel(steps),
    env: { ...speech, ...env },
  })
  onTestFinished(() => oracle[Symbol.asyncDispose]())
  const sessionId = await oracle.session()
  const client = oracle.tab()
  const strict = (child: ReactNode) => createElement(StrictMode, null, oracle.within(client)(child))
  const toasts: string[] = []
  const used = hook(
    () =>
      useLiveAgent(
        oracle.oracleDid,
        undefined,
        undefined,
        ({ title, description }) => toasts.push(`${title}: ${description}`),
        oracle.overrides,
      ),
    strict,
  )
  const userDid = oracle.wallet.initialWallet.did
  const wanted = { callType: 'audio' as const, sessionId, userDid }
  /** The calls that the server knows of. */
  const known = async (callId: string) =>
    client.request<Record<string, unknown>>(
      oracle.oracleDid,
      `/calls/${callId}`,
      {},
      oracle.overrides,
    )
  const underWay = async () =>
    (
      await client.request<{ calls: { callId: string }[] }>(
        oracle.oracleDid,
        '/calls',
        {},
        oracle.overrides,
      )
    ).calls
  return { oracle, used, wanted, known, underWay, toasts }
}
