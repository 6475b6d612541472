import { beforeAll, describe, expect, it } from 'vitest'
import { call, scriptedModel, testApp } from '#core/testing'
import { z } from 'zod'
import { definePlugin } from '#core'
import { openPage, type Page, until } from './page.ts'

const post = definePlugin({
  name: 'post',
  summary: 'Letters.',
  visibility: 'always',
  tools: {
    send: {
      description: 'Sends a letter.',
      effect: 'write',
      input: z.object({ to: z.string() }),
      run: ({ to }) => `sent to ${to}`,
    },
  },
})

describe('the published client and forks', () => {
  let page: Page
  beforeAll(async () => void (page = await openPage(19)), 60_000)

  it('lists a fork and a branch as sessions, opens a fork, and goes on with it', async () => {
    const model = scriptedModel([
      call('send', { to: 'Ada' }),
      'Ada has it.',
      'No trouble.',
      'So be it.',
    ])
    await using app = await testApp({ plugins: [post], model })
    const user = await app.user()
    const { sessionId } = await user.say('Write to Ada')
    await user.say('Thank you', { sessionId })
    const history = async (id: string) => (await user.get(`/messages/${id}`)).body.messages
    const before = await history(sessionId)
    const fork = async (body: object) => {
      const made = await user.post(`/sessions/${sessionId}/fork`, body)
      expect(made.status).toBe(201)
      return made.body
    }
    const forked = await fork({ before: before.at(-2).id, title: 'Another end' })
    const branch = await fork({ before: before[0].id, branch: true })

    const audience = app.oracleDid
    const until24 = Date.now() + 86_400_000
    const wallet = {
      initialWallet: {
        address: 'ixo1someone',
        did: user.did,
        matrix: { accessToken: 'none', homeServer: 'none.example' },
      },
      transactSignX: async () => undefined,
      createDelegation: async () => ({
        serialized: (await user.wallet.delegate({ audience })).text,
        expiresAt: until24,
      }),
      createInvocation: async () => ({
        serialized: (await user.wallet.invoke({ audience, lifetime: 800 })).text,
        expiresAt: Date.now() + 800_000,
      }),
    }
    const { createElement } = page.react
    const overrides = { baseUrl: app.url, wsUrl: app.url }
    // The same objects at every rendering: that client begins anew with others.
    const options = {
      ...{ oracleDid: app.oracleDid, sessionId: forked.sessionId, overrides },
      onPaymentRequiredError: () => undefined,
      uiComponents: {
        ToolCall: ({ toolName, output }: any) => createElement('i', null, `${toolName} ${output}`),
      },
    }
    let sessions: any
    let chat: any
    function Probe() {
      sessions = page.client.useOracleSessions(app.oracleDid, { baseUrl: app.url })
      chat = page.client.useChat(options)
      return chat.messages.map(({ id, type, content }: any) =>
        createElement('p', { key: id }, `${type}: `, page.client.renderMessageContent(content)),
      )
    }
    const shown = page.mount(
      createElement(page.client.OraclesProvider, wallet, createElement(Probe)),
    )
    const text = () => shown.container.textContent

    await until(() => sessions?.sessions.length === 3)
    const listed = new Map(sessions.sessions.map((one: any) => [one.sessionId, one]))
    expect([...listed.keys()].toSorted()).toEqual(
      [sessionId, forked.sessionId, branch.sessionId].toSorted(),
    )
    expect(listed.get(forked.sessionId)).toMatchObject({
      title: 'Another end',
      oracleDid: app.oracleDid,
      oracleName: expect.any(String),
      createdAt: expect.any(String),
      lastUpdatedAt: expect.any(String),
    })
    await until(() => text().includes('Ada has it.'))
    expect(text()).toContain('human: Write to Ada')
    expect(text()).not.toContain('Thank you')

    await until(() => chat.isRealTimeConnected)
    await chat.sendMessage('I should not have')
    await until(() => text().includes('So be it.'))
    await until(() => chat.status === 'ready' && !chat.error)
    expect((await history(forked.sessionId)).at(-1).content).toBe('So be it.')
    expect(await history(sessionId)).toEqual(before)
    // The letter went out once, in the conversation that was forked.
    expect(model.requests).toHaveLength(4)
    await sessions.deleteSession(branch.sessionId)
    await until(() => sessions.sessions.length === 2)
  }, 90_000)
})
