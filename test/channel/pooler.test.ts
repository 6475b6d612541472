import { expect, it, onTestFinished } from 'vitest'
import { scriptedModel, testApp, type ScriptedModel } from '#core/testing'
import { behindPooler, type Pooled } from '../support/pooler.ts'
import { urlOf } from '../support/services.ts'
import { plainSocket, tokensOf } from '../support/sockets.ts'

const redisUrl = await urlOf('redis')
const click = { name: 'click', description: 'Clicks.', schema: {} }
const mnemonic = 'words that these replicas share'

const ways = {
  direct: ({ directUrl }: Pooled): Record<string, string> => ({ DATABASE_LISTEN_URL: directUrl }),
  redis: (): Record<string, string> => ({ REDIS_URL: redisUrl ?? '' }),
  polling: (): Record<string, string> => ({}),
}

await behindPooler('two servers behind a transaction pooler', (pooled) => {
  for (const [way, env] of Object.entries(ways))
    it.skipIf(way === 'redis' && redisUrl === undefined && !process.env.REQUIRE_ALL)(
      `a socket at one hears, answers and stops what the other runs, and closes with what opened it (${way})`,
      async () => {
        const server = async (model: ScriptedModel) => {
          const app = await testApp({
            plugins: [],
            model,
            env: { DATABASE_URL: pooled.pooledUrl, ORACLE_MNEMONIC: mnemonic, ...env(pooled) },
          })
          onTestFinished(() => app.close())
          return app
        }
        const model = scriptedModel([
          [{ call: 'click', args: { n: 1 } }],
          'Clicked, it says.',
          [{ call: 'click', args: { n: 2 } }],
        ])
        const [here, there] = await Promise.all([server(model), server(scriptedModel([]))])
        for (const { url } of [here, there]) {
          const health = await (await fetch(`${url}/health`)).json()
          expect(health).toMatchObject({ database: 'connected', listening: way })
        }
        const user = await here.user()
        const { sessionId } = (await user.post('/sessions')).body
        const socket = await plainSocket(there.url, sessionId, await tokensOf(user, here.oracleDid))
        // Not as a stream: nobody but that socket can carry the call out.
        const say = (message: string) =>
          user.post(`/messages/${sessionId}`, { message, stream: false, tools: [click] })
        const said = say('Click')
        const { toolCallId } = await socket.event('browser_tool_call')
        socket.answer({ toolCallId, sessionId, result: 'from afar' })
        expect((await said).body.message.content).toBe('Clicked, it says.')
        expect((await socket.event('done')).status).toBe('finished')
        const text = socket.events('message').map(({ content }) => content)
        expect(text.join('')).toBe('Clicked, it says.')

        const second = say('Click again')
        await socket.event('browser_tool_call', 1)
        // The stop comes to the server that does not carry the run.
        const { invocation, ucanDelegation } = await tokensOf(user, here.oracleDid)
        const stopped = await fetch(`${there.url}/messages/abort`, {
          method: 'POST',
          headers: {
            authorization: `Bearer ${invocation}`,
            'x-ucan-delegation': ucanDelegation,
            'content-type': 'application/json',
          },
          body: JSON.stringify({ sessionId }),
        })
        expect(await stopped.json()).toMatchObject({ success: true })
        await second
        expect((await socket.event('done', 1)).status).toBe('aborted')

        // A token that is revoked here, and a session that is deleted here, close the sockets there.
        const other = await tokensOf(user, here.oracleDid)
        const revoked = await plainSocket(there.url, sessionId, {
          ucanDelegation: other.ucanDelegation,
        })
        await user.delete('/delegation', {
          headers: { 'x-ucan-delegation': other.ucanDelegation },
        })
        expect((await revoked.closed).code).toBe(4401)
        await user.delete(`/sessions/${sessionId}`)
        expect((await socket.closed).code).toBe(4403)
      },
    )
})
