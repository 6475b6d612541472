import { expect, it, onTestFinished } from 'vitest'
import { scriptedModel, testApp, type ScriptedModel } from '#core/testing'
import { onPostgres } from '../support/each-database.ts'
import { framings, plainSocket, tokensOf } from '../support/sockets.ts'
import { unquote } from '../support/models.ts'

const click = { name: 'click', description: 'Clicks.', schema: {} }
const mnemonic = 'words that these replicas share'

await onPostgres('two servers with one database', (where) => {
  const server = async (model: ScriptedModel, env: Record<string, string> = {}) => {
    const app = await testApp({
      plugins: [],
      model,
      env: { DATABASE_URL: where.databaseUrl!, ORACLE_MNEMONIC: mnemonic, ...env },
    })
    onTestFinished(() => app.close())
    return app
  }

  for (const [name, framing] of Object.entries(framings))
    it(`a socket at one hears and answers the turn that the other runs (${name})`, async () => {
      const model = scriptedModel([[{ call: 'click', args: { n: 1 } }], 'Clicked, it says.'])
      const [here, there] = [await server(model), await server(scriptedModel([]))]
      const user = await here.user()
      const { sessionId } = (await user.post('/sessions')).body
      const socket = await framing(there.url, sessionId, await tokensOf(user, here.oracleDid))
      // Not as a stream: nobody but that socket can carry the call out.
      const said = user.post(`/messages/${sessionId}`, {
        message: 'Click',
        stream: false,
        tools: [click],
      })
      const { toolCallId } = await socket.event('browser_tool_call')
      socket.answer({ toolCallId, sessionId, result: 'from afar' })
      expect((await said).body.message.content).toBe('Clicked, it says.')
      expect(unquote(model.requests[1]!.messages.at(-1)!.content)).toBe('from afar')
      expect(socket.events('browser_tool_call')).toHaveLength(1)
      if (name !== 'plain') return
      const { status } = await socket.event('done')
      expect(status).toBe('finished')
      const text = socket.events('message').map(({ content }) => content)
      expect(text.join('')).toBe('Clicked, it says.')
    })

  it('a socket that moves to the other is asked again there', async () => {
    const model = scriptedModel([[{ call: 'click', args: { n: 1 } }], 'Clicked.'])
    const [here, there] = [await server(model), await server(scriptedModel([]))]
    const user = await here.user()
    const { sessionId } = (await user.post('/sessions')).body
    const tokens = await tokensOf(user, here.oracleDid)
    const lost = await plainSocket(here.url, sessionId, tokens)
    const said = user.say('Click', { sessionId, body: { tools: [click] } })
    const { toolCallId } = await lost.event('browser_tool_call')
    // It can be asked again once it is written down.
    await lost.event('tool_call')
    lost.kill()
    const back = await plainSocket(there.url, sessionId, tokens)
    expect((await back.event('browser_tool_call')).toolCallId).toBe(toolCallId)
    back.answer({ toolCallId, result: 'back again' })
    expect((await said).text).toBe('Clicked.')
    expect(back.events('browser_tool_call')).toHaveLength(1)
  })

  it('a revocation and a deletion at one close the sockets at the other', async () => {
    const [here, there] = [await server(scriptedModel([])), await server(scriptedModel([]))]
    const user = await here.user()
    const { sessionId } = (await user.post('/sessions')).body
    const { ucanDelegation, invocation } = await tokensOf(user, here.oracleDid)
    const revoked = await plainSocket(there.url, sessionId, { ucanDelegation })
    const deleted = await plainSocket(there.url, sessionId, { invocation })
    await user.delete('/delegation', { headers: { 'x-ucan-delegation': ucanDelegation } })
    expect((await revoked.closed).code).toBe(4401)
    await user.delete(`/sessions/${sessionId}`)
    expect((await deleted.closed).code).toBe(4403)
  })

  it('a turn that is handed over goes on for the sockets, wherever they are', async () => {
    const waiting = scriptedModel([[{ call: 'click', args: {} }]])
    const goesOn = scriptedModel(['Clicked elsewhere.'])
    const here = await server(waiting, { RUN_LEASE_MS: '1000' })
    const user = await here.user()
    const { sessionId } = (await user.post('/sessions')).body
    const tokens = await tokensOf(user, here.oracleDid)
    const first = await plainSocket(here.url, sessionId, tokens)
    void user.post(`/messages/${sessionId}`, { message: 'Click', stream: false, tools: [click] })
    const { toolCallId } = await first.event('browser_tool_call')
    const there = await server(goesOn, { RUN_LEASE_MS: '1000' })
    const closing = here.close()
    expect((await first.closed).code).toBe(1012)
    const second = await plainSocket(there.url, sessionId, tokens)
    const again = await second.event('browser_tool_call')
    expect(again.toolCallId).toBe(toolCallId)
    second.answer({ toolCallId, result: 'done' })
    expect((await second.event('done')).status).toBe('finished')
    expect(unquote(goesOn.requests[0]!.messages.at(-1)!.content)).toBe('done')
    await closing
  })
})
