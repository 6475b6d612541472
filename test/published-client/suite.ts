import { setTimeout as pause } from 'node:timers/promises'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { type AnyPlugin, definePlugin } from '#core'
import {
  scriptedModel,
  testApp,
  type ScriptedStep,
  type TestApp,
  type TestUser,
} from '#core/testing'
import { createOracleClient } from '../../client/core/client.ts'
import { lookedThrough, sentence } from '../support/nothing-kept.ts'
import payments from '../../plugins/payments/index.ts'
import { openPage, until, type Page } from './page.ts'
import { unquote } from '../support/models.ts'
import { pay } from '../support/paid-app.ts'

const show = definePlugin({
  name: 'show',
  summary: 'Shows things.',
  visibility: 'always',
  tools: {
    show_card: {
      description: 'Shows a card.',
      input: z.object({ title: z.string() }),
      run({ title }, { emit }) {
        emit.component('Card', { title })
        return 'shown'
      },
    },
  },
})

/** Every answer of 402 that a fetch of this test gets, as it came. */
function listenTo402() {
  const refusals: { readonly type: string | null; readonly body: unknown }[] = []
  const { fetch } = globalThis
  globalThis.fetch = async (...call) => {
    const answer = await fetch(...call)
    if (answer.status === 402) {
      const type = answer.headers.get('content-type')
      refusals.push({ type, body: await answer.clone().json() })
    }
    return answer
  }
  onTestFinished(() => void (globalThis.fetch = fetch))
  return refusals
}

/** The published client, unchanged, against this server. */
export function publishedClient(version: 18 | 19): void {
  describe(`the published client on React ${version}`, () => {
    let page: Page
    beforeAll(async () => void (page = await openPage(version)), 60_000)

    async function start(
      steps: readonly ScriptedStep[],
      env: Record<string, string> = {},
      plugins: readonly AnyPlugin[] = [show],
    ) {
      const model = scriptedModel(steps)
      const watching = plugins.includes(payments) ? [lookedThrough(() => app.log)] : []
      const app: TestApp = await testApp({ plugins: [...plugins, ...watching], model, env })
      onTestFinished(() => app.close())
      const user = await app.user()
      const sessionId: string = (await user.post('/sessions')).body.sessionId
      return { model, app, user, sessionId }
    }

    interface Setting {
      readonly app: TestApp
      readonly user: TestUser
      readonly delegationOnly?: boolean
      /** Whom the tokens are meant for. */
      readonly audience?: string
    }

    /** What a wallet hands to a provider. */
    function walletOf({ app, user, delegationOnly, audience = app.oracleDid }: Setting) {
      const until = (seconds: number) => Date.now() + seconds * 1000
      return {
        initialWallet: {
          address: 'ixo1someone',
          did: user.did,
          matrix: { accessToken: 'none', homeServer: 'none.example' },
        },
        transactSignX: async () => undefined,
        createDelegation: async () => ({
          serialized: (await user.wallet.delegate({ audience })).text,
          expiresAt: until(86_400),
        }),
        ...(!delegationOnly && {
          createInvocation: async () => ({
            serialized: (await user.wallet.invoke({ audience, lifetime: 800 })).text,
            expiresAt: until(800),
          }),
        }),
      }
    }

    /** Runs a hook inside the client's provider, and renders what `draw` makes of what it returns. */
    function hook(setting: Setting, use: () => any, draw: (now: any) => unknown = () => null) {
      const { createElement } = page.react
      const seen: any[] = []
      function Probe() {
        const now = use()
        seen.push(now)
        return draw(now)
      }
      const mounted = page.mount(
        createElement(page.client.OraclesProvider, walletOf(setting), createElement(Probe)),
      )
      return {
        ...mounted,
        seen,
        get now() {
          return seen.at(-1)
        },
      }
    }

    /** A chat, drawn as an application would draw it. */
    function chat(setting: Setting, sessionId: string, options: object = {}, beside?: () => void) {
      const { createElement } = page.react
      const drawn = (name: string) => (props: any) =>
        createElement('i', null, `[${name} ${JSON.stringify(props)}]`)
      const uiComponents = {
        Card: ({ title, args }: any) => createElement('b', null, `{Card ${title ?? args?.title}}`),
        ToolCall: ({ toolName, status, output }: any) =>
          createElement('i', null, `{${toolName} ${status} ${output ?? ''}}`),
        AgActionToolCall: ({ actionName, status }: any) =>
          createElement('i', null, `{${actionName} ${status}}`),
        Error: drawn('Error'),
      }
      return hook(
        setting,
        () => {
          beside?.()
          return page.client.useChat({
            oracleDid: setting.app.oracleDid,
            sessionId,
            overrides: { baseUrl: setting.app.url, wsUrl: setting.app.url },
            onPaymentRequiredError: () => undefined,
            uiComponents,
            ...options,
          })
        },
        ({ messages }) =>
          messages.map((message: any) =>
            createElement(
              'p',
              { key: message.id },
              `${message.type}: `,
              page.client.renderMessageContent(message.content, uiComponents),
            ),
          ),
      )
    }

    const connected = (it: { now: any }) => until(() => it.now?.isRealTimeConnected)

    it('lists, pages, creates and deletes sessions', async () => {
      const it = await start([])
      for (let i = 0; i < 4; i++) await it.user.post('/sessions')
      const sessions = hook(it, () =>
        page.client.useOracleSessions(it.app.oracleDid, { baseUrl: it.app.url, limit: 2 }),
      )
      await until(() => sessions.now?.sessions.length === 2)
      expect(sessions.now.total).toBe(5)
      await sessions.now.fetchNextPage()
      await until(() => sessions.now.sessions.length === 4)
      await sessions.now.fetchNextPage()
      await until(() => sessions.now.sessions.length === 5 && !sessions.now.hasNextPage)
      const made = await sessions.now.createSession()
      expect(made.sessionId).toEqual(expect.any(String))
      await until(() => sessions.now.total === 6)
      await sessions.now.deleteSession(made.sessionId)
      await until(() => sessions.now.total === 5)
    })

    it('streams a reply, and finds it in the history', async () => {
      const it = await start([{ text: ['Good ', 'day ', 'to ', 'you.'], paceMs: 500 }])
      const hooked = chat(it, it.sessionId)
      await connected(hooked)
      await hooked.now.sendMessage('Hello')
      const texts: string[] = hooked.seen.map(({ messages }) => messages.at(-1)?.content ?? '')
      const whole = 'Good day to you.'
      expect(texts).toContain(whole)
      // Where the machine has no time, several pieces come at once.
      const isPart = (text: string) => text !== '' && text !== whole && whole.startsWith(text)
      expect(texts.some(isPart)).toBe(true)
      expect(hooked.seen.map(({ status }) => status)).toEqual(expect.arrayContaining(['streaming']))
      await until(() => hooked.now.status === 'ready' && hooked.now.messages.length === 2)
      expect(hooked.container.textContent).toBe('human: Helloai: Good day to you.')
      const { messages } = (await it.user.get(`/messages/${it.sessionId}`)).body
      expect(hooked.now.messages.map(({ id }: any) => id)).toEqual(
        messages.map(({ id }: any) => id),
      )
      expect(hooked.now.run).toMatchObject({ ended: 'done', resumed: 0 })
    })

    it('tells the page of a 402 by its claims, stays ready, and has the same text answered once it is paid', async () => {
      const it = await start(['Here it is.'], { PAYMENTS_TURN_PRICE: '5000' }, [payments])
      const refusals = listenTo402()
      const told: string[][] = []
      const onPaymentRequiredError = (ids: string[]) => void told.push(ids)
      const hooked = chat(it, it.sessionId, { onPaymentRequiredError })
      await connected(hooked)
      const before = hooked.seen.length
      expect(await hooked.now.sendMessage(sentence)).toBeUndefined()
      await until(() => told.length === 1 && hooked.now.status === 'ready')
      const after = hooked.seen.slice(before)
      expect(after.map(({ status }) => status)).toContain('submitted')
      expect(after.map(({ status }) => status)).not.toContain('error')
      expect(hooked.now).toMatchObject({ isSending: false, error: null })

      // What came is JSON, before any stream, and has its claims by the old name and by the new one.
      const { claims } = (await it.user.get('/payments/account')).body
      expect(claims).toHaveLength(1)
      expect(told).toEqual([claims])
      expect(refusals).toEqual([
        {
          type: expect.stringMatching(/^application\/json\b/),
          body: {
            statusCode: 402,
            code: 'PAYMENT_REQUIRED',
            error: 'Payment Required',
            message: 'Payment needed: 0.05 DEV for 1 claim.',
            hint: expect.any(String),
            claims,
            outstandingClaims: claims,
            amount: '50000',
            denom: 'udev',
            methods: ['transfer', 'development'],
            requestId: expect.any(String),
          },
        },
      ])

      await pay(it.user, told[0])
      await hooked.now.sendMessage(sentence)
      await until(() => hooked.container.textContent.includes('ai: Here it is.'))
      expect(told).toHaveLength(1)
      expect(it.model.requests.at(-1)?.messages.at(-1)).toMatchObject({ content: sentence })
      const { messages } = (await it.user.get(`/messages/${it.sessionId}`)).body
      expect(messages.map(({ content }: any) => content)).toEqual([sentence, 'Here it is.'])
    })

    it('shows what was said and answered in another tab', async () => {
      const it = await start(['Said elsewhere.', 'And here.'])
      const hooked = chat(it, it.sessionId)
      await connected(hooked)
      await it.user.say('From another tab', { sessionId: it.sessionId })
      await until(() => hooked.container.textContent.includes('ai: Said elsewhere.'))
      expect(hooked.container.textContent).toContain('human: From another tab')
      await hooked.now.sendMessage('From this one')
      await until(() => hooked.container.textContent.includes('ai: And here.'))
      await until(() => hooked.now.messages.length === 4)
    })

    it('and oracle-runtime-client, in two tabs of a session, show the same', async () => {
      const it = await start(['Said to the one.', 'Said to the other.'])
      const theirs = chat(it, it.sessionId)
      await connected(theirs)
      const ours = createOracleClient({ ...walletOf(it), wallet: walletOf(it).initialWallet }).chat(
        {
          oracleDid: it.app.oracleDid,
          sessionId: it.sessionId,
          overrides: { baseUrl: it.app.url },
        },
      )
      onTestFinished(ours.subscribe(() => undefined))
      await until(() => ours.getSnapshot().isRealTimeConnected)
      const transcript = (messages: readonly any[]) =>
        messages.map(({ type, content }) => `${type}: ${content}`).join('\n')
      const areSame = (count: number) => () =>
        ours.getSnapshot().messages.length === count &&
        transcript(ours.getSnapshot().messages) === transcript(theirs.now.messages)

      await ours.sendMessage('By ours')
      await until(areSame(2))
      await theirs.now.sendMessage('By theirs')
      await until(areSame(4))
      expect(transcript(theirs.now.messages)).toContain('ai: Said to the other.')
    })

    it('draws tool calls and components while they come, and again after it has read the history', async () => {
      const it = await start([
        [{ call: 'show_card', args: { title: 'Lusaka' } }],
        { text: 'There it is.', delayMs: 150 },
      ])
      const hooked = chat(it, it.sessionId)
      await connected(hooked)
      const sent = hooked.now.sendMessage('Show it')
      await until(() => hooked.container.textContent.includes('{Card Lusaka}'))
      expect(hooked.container.textContent).toContain('{show_card')
      expect(hooked.container.textContent).not.toContain('Thinking')
      await sent
      const { messages } = (await it.user.get(`/messages/${it.sessionId}`)).body
      const ids = messages.map(({ id }: any) => id).join()
      await until(() => hooked.now.messages.map(({ id }: any) => id).join() === ids)
      const after = hooked.container.textContent
      expect(after).toContain('{Card Lusaka}')
      expect(after).toContain('{show_card done shown}')
      // A reload draws the same.
      const again = chat(it, it.sessionId)
      await until(() => again.container.textContent === after)
    })

    it('shows nobody thinking once the answer is there', async () => {
      const it = await start([{ text: 'Said.', delayMs: 100 }])
      const hooked = chat(it, it.sessionId)
      const other = chat(it, it.sessionId)
      await connected(hooked)
      await connected(other)
      await hooked.now.sendMessage('Hello')
      // The other tab hears of the end over its socket alone.
      await until(() => other.container.textContent.includes('Said.'))
      await until(() => hooked.container.textContent.includes('Said.'))
      await pause(500)
      for (const { container } of [hooked, other])
        expect(container.textContent).not.toContain('Thinking')
    })

    it('runs tools of the browser, whose results and errors reach the model', async () => {
      const it = await start([
        [
          { call: 'page_title', args: { of: 'a' } },
          { call: 'page_fails', args: {} },
        ],
        'Now I know.',
      ])
      const called: unknown[] = []
      const tool = (toolName: string, fn: (args: any) => unknown) => ({
        toolName,
        description: 'A tool of the page.',
        schema: z.object({}),
        fn,
      })
      const hooked = chat(it, it.sessionId, {
        browserTools: {
          page_title: tool('page_title', async (args) => (called.push(args), { title: 'Home' })),
          page_fails: tool('page_fails', () => {
            throw new Error('no such element')
          }),
        },
      })
      await connected(hooked)
      await hooked.now.sendMessage('Look')
      await until(() => hooked.now.messages.at(-1)?.content === 'Now I know.')
      expect(called).toEqual([{ of: 'a' }])
      const [title, failed] = it.model.requests[1]!.messages.slice(-2)
      expect(JSON.parse(unquote(title!.content))).toEqual({ title: 'Home' })
      expect(failed!.content).toContain('no such element')
      expect(hooked.container.textContent).toContain('{page_title done {"title":"Home"}}')
    })

    it('carries out an action once, and draws it', async () => {
      const it = await start([
        [{ call: 'show_chart', args: { points: [1, 2] } }],
        'There is your chart.',
      ])
      const handled: unknown[] = []
      const rendered: unknown[] = []
      const hooked = chat(it, it.sessionId, {}, () =>
        page.client.useAgAction({
          name: 'show_chart',
          description: 'Shows a chart.',
          parameters: z.object({ points: z.array(z.number()) }),
          handler: async (args: unknown) => (handled.push(args), { success: true }),
          render: (props: unknown) => void rendered.push(props),
        }),
      )
      await connected(hooked)
      await hooked.now.sendMessage('Chart')
      await until(() => hooked.now.messages.at(-1)?.content === 'There is your chart.')
      expect(handled).toEqual([{ points: [1, 2] }])
      expect(rendered).toEqual([{ status: 'done', args: { points: [1, 2] } }])
      expect(it.model.requests[0]!.tools.map(({ name }) => name)).toContain('show_chart')
      expect(JSON.parse(unquote(it.model.requests[1]!.messages.at(-1)!.content))).toEqual({
        success: true,
      })
      expect(hooked.container.textContent).toContain('{show_chart done}')
    })

    it('stops', async () => {
      const it = await start([{ text: Array(400).fill('on and '), paceMs: 20 }, 'Again.'])
      const hooked = chat(it, it.sessionId)
      await connected(hooked)
      const sent = hooked.now.sendMessage('Go on')
      await until(() => String(hooked.now.messages.at(-1)?.content).startsWith('on and'))
      await hooked.now.abortStream()
      await sent
      await until(() => hooked.now.status === 'ready')
      expect(hooked.now.error).toBeFalsy()
      await until(() => hooked.now.messages.at(-1)?.isComplete === false)
      // The stream ends a moment after the Stop was answered.
      while ((await it.user.get(`/sessions/${it.sessionId}/run`)).body.run) await pause(20)
      await hooked.now.sendMessage('And now')
      await until(() => hooked.now.messages.at(-1)?.content === 'Again.')
    })

    it('says that it is not let in', async () => {
      const it = await start([])
      const audience = 'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK'
      const hooked = chat({ ...it, audience }, it.sessionId)
      await until(() => hooked.now?.error)
      expect(hooked.now.error.message).toBe('No valid credential came with the request.')
      await expect(hooked.now.sendMessage('Hello')).rejects.toThrow('No valid credential')
      expect(hooked.now.isRealTimeConnected).toBe(false)
    })

    it('loads a long history page by page', async () => {
      const it = await start(Array.from({ length: 8 }, (_, i) => `Answer ${i}.`))
      for (let i = 0; i < 8; i++) await it.user.say(`Question ${i}`, { sessionId: it.sessionId })
      const hooked = chat(it, it.sessionId, { historyPageSize: 6 })
      await until(() => hooked.now?.messages.length === 6)
      for (const count of [12, 16]) {
        expect(hooked.now.hasEarlier).toBe(true)
        await hooked.now.loadEarlier()
        await until(() => hooked.now.messages.length === count)
      }
      await until(() => !hooked.now.hasEarlier)
      expect(hooked.now.messages.map(({ content }: any) => content)).toEqual(
        Array.from({ length: 8 }, (_, i) => [`Question ${i}`, `Answer ${i}.`]).flat(),
      )
    })

    it('joins a run again after a reload', async () => {
      const words = Array.from({ length: 30 }, (_, i) => `w${i} `)
      const it = await start([{ text: words, paceMs: 40 }])
      const first = chat(it, it.sessionId)
      await connected(first)
      void first.now.sendMessage('Count').catch(() => undefined)
      await until(() => String(first.now.messages.at(-1)?.content).includes('w3 '))
      first.unmount()
      const second = chat(it, it.sessionId)
      await until(() => second.now?.status === 'streaming')
      await until(() => second.now.messages.at(-1)?.content === words.join(''))
      await until(() => second.now.status === 'ready')
      await until(() => second.container.textContent === `human: Countai: ${words.join('')}`)
      expect(second.container.textContent).toBe(`human: Countai: ${words.join('')}`)
    })

    it('lists the models, and the one chosen once stays for the session, over reload and restart', async () => {
      const sealed = { signature: 'sealed-4f1b' }
      const answers = (id: string): ScriptedStep[] =>
        ['First.', 'Second.', 'Third.'].map((text) => ({
          text: `${text} ${id}`,
          reasoning: 'Well.',
          provider: sealed,
        }))
      const models = () => ['a/usual', 'b/other'].map((id) => scriptedModel(answers(id), { id }))
      const price = { input: 1, output: 20 }
      const modelSettings = {
        'b/other': { label: 'Other', badge: 'Smartest', blurb: 'Thinks long.', price },
      }
      const app = await testApp({ plugins: [show], model: models(), modelSettings })
      onTestFinished(() => app.close())
      const name = 'the user of the published client'
      const user = await app.user(name)
      const sessionId: string = (await user.post('/sessions')).body.sessionId
      const offered = hook(
        { app, user },
        () => page.client.useModels(app.oracleDid, { baseUrl: app.url }),
        ({ models }) =>
          models.map(({ id, label, costLabel, badge, blurb, isDefault, pricing }: any) =>
            page.react.createElement(
              'li',
              { key: id },
              `${label} ${costLabel} ${badge} ${blurb} ${pricing.outputPerMillion} ${isDefault}; `,
            ),
          ),
      )
      await until(() => offered.now?.models.length === 2)
      expect(offered.now).toMatchObject({ error: null, defaultModelId: 'a/usual' })
      expect(offered.now.defaultModel).toMatchObject({ id: 'a/usual', isDefault: true })
      expect(offered.container.textContent).toContain('Other $$$ Smartest Thinks long. 20 false; ')

      const chosen = chat({ app, user }, sessionId, { model: 'b/other' })
      await connected(chosen)
      await chosen.now.sendMessage('One')
      await until(() => chosen.container.textContent.includes('ai: First. b/other'))
      chosen.unmount()
      // The page was loaded again, and nobody has chosen anything in it.
      const reloaded = chat({ app, user }, sessionId)
      await connected(reloaded)
      await reloaded.now.sendMessage('Two')
      await until(() => reloaded.container.textContent.includes('ai: Second. b/other'))
      reloaded.unmount()
      await app.again({ model: models() })
      const restarted = chat({ app, user: await app.user(name) }, sessionId)
      await connected(restarted)
      await restarted.now.sendMessage('Three')
      await until(() => restarted.now.messages.length === 6)
      expect(restarted.container.textContent).toMatch(/Three.*ai: First\. b\/other/s)
      for (const { seen } of [chosen, reloaded, restarted])
        expect(JSON.stringify(seen)).not.toContain('sealed-4f1b')
    })

    it('gets along with a delegation alone', async () => {
      const it = await start([[{ call: 'page_title', args: {} }], 'Home, then.'])
      const hooked = chat({ ...it, delegationOnly: true }, it.sessionId, {
        browserTools: {
          page_title: {
            toolName: 'page_title',
            description: 'The title.',
            schema: z.object({}),
            fn: () => 'Home',
          },
        },
      })
      await connected(hooked)
      await hooked.now.sendMessage('Where am I?')
      await until(() => hooked.now.messages.at(-1)?.content === 'Home, then.')
      expect(unquote(it.model.requests[1]!.messages.at(-1)!.content)).toBe('Home')
    })
  })
}
