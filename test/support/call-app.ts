import { onTestFinished } from 'vitest'
import {
  scriptedModel,
  testApp,
  type ScriptedStep,
  type TestApp,
  type TestClock,
} from '#core/testing'
import type { AnyPlugin } from '#core'
import calls from '../../plugins/calls/index.ts'
import type { Where } from './each-database.ts'
import { beeps } from './calling-voice.ts'

/** What an oracle that can be called is started with. */
export interface CallAppOptions extends Where {
  readonly env?: Readonly<Record<string, string>>
  readonly plugins?: readonly AnyPlugin[]
  readonly clock?: TestClock
}

/** An oracle that can be called, whose model answers by a script and whose words are beeps. */
export async function callApp(
  steps: readonly ScriptedStep[],
  { databaseUrl, env, plugins = [], clock }: CallAppOptions = {},
) {
  const model = scriptedModel(steps)
  const app: TestApp = await testApp({
    plugins: [calls, ...plugins],
    model,
    ...(clock && { clock }),
    env: {
      NODE_ENV: 'test',
      CALLS_VOICE: 'command',
      CALLS_VOICE_COMMAND: beeps(),
      ...(databaseUrl && { DATABASE_URL: databaseUrl }),
      ...env,
    },
  })
  onTestFinished(() => app.close())
  const user = await app.user()
  const { sessionId } = (await user.post('/sessions', {})).body as { sessionId: string }
  const history = async () =>
    (await user.get(`/messages/${sessionId}`)).body.messages as Record<string, any>[]
  return { app, model, user, sessionId, history }
}
