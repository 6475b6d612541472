import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, type PluginSessions, type Turns } from '#core'
import type { ToolSpec } from '#core/models'
import { call, scriptedModel, testApp, type TestUser } from '#core/testing'
import weather from '../../plugins/weather/index.ts'
import { isSummaryRequest, kilobyte, withProvider } from '../support/reader.ts'

interface PluginBytes {
  readonly lines: number
  readonly tools: number
}
type Part = 'system' | 'tools' | 'conversation' | 'kernel' | 'persona' | 'catalogue'
type Further = 'clientTools' | 'history' | 'summary' | 'results'
interface SentBytes extends Readonly<Record<Part | Further, number>> {
  readonly plugins: Readonly<Record<string, PluginBytes>>
  readonly furtherPlugins?: PluginBytes
}

/** What each call of a model in a run was sent. */
async function sentOf(user: TestUser, runId: string): Promise<SentBytes[]> {
  const { steps } = (await user.get(`/runs/${runId}/trace`)).body as {
    steps: { kind: string; sent?: SentBytes }[]
  }
  return steps.filter(({ kind }) => kind === 'model').map(({ sent }) => sent!)
}

const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value))

/** The request is the sum of its three, and of its parts by whom they come from. */
function expectWhole(sent: SentBytes) {
  const { system, tools, conversation, kernel, persona, catalogue, clientTools } = sent
  const { furtherPlugins = { lines: 0, tools: 0 }, history, summary, results } = sent
  const plugins = [...Object.values(sent.plugins), furtherPlugins]
  const owned = plugins.reduce((sum, { lines, tools }) => sum + lines + tools, 0)
  expect(kernel + persona + catalogue + clientTools + owned).toBe(system + tools)
  expect(history + summary + results).toBe(conversation)
  // What is kept of a call is at most a kilobyte.
  expect(bytesOf(sent)).toBeLessThan(1024)
}

const garden = definePlugin({
  name: 'garden',
  summary: 'Looks after a garden.',
  visibility: 'always',
  prompt: () => 'Plants want water.\nSay "please" to them.',
  tools: {
    look: {
      description: 'Looks at the garden.',
      effect: 'read',
      foreign: false,
      input: z.object({ bed: z.string() }),
      run: () => 'All of it grows. '.repeat(50),
    },
  },
  subAgents: { worm: { description: 'Digs.', prompt: 'You dig in the earth.', tools: ['look'] } },
})

it('what a call was sent is told by whom it comes from, to the byte', async () => {
  const model = scriptedModel([
    call('look', { bed: 'roses' }),
    call('call_worm', { task: 'Dig.' }),
    'Dug.',
    'All is well.',
  ])
  const instructions = 'You are a gardener.\nBe brief.'
  const app = await testApp({ plugins: [garden, weather], model, instructions })
  onTestFinished(() => app.close())
  const user = await app.user()
  const blink = { name: 'blink', description: 'Blinks.', schema: { type: 'object' } }
  const words = 'How is the garden? '.repeat(20)
  const { runId, sessionId } = await user.say(words, { body: { tools: [blink] } })
  const [first, second, worm, last] = (await sentOf(user, runId)) as [
    SentBytes,
    SentBytes,
    SentBytes,
    SentBytes,
  ]
  for (const sent of [first, second, worm, last]) expectWhole(sent)

  const { parts } = (await user.get(`/sessions/${sessionId}/prompt`)).body as {
    parts: { part: string; plugin?: string; text: string }[]
  }
  const textOf = (part: string) => parts.find((one) => one.part === part)?.text ?? ''
  expect(textOf('persona')).toContain(instructions)
  expect(first.persona).toBe(bytesOf(textOf('persona')) - 2)
  expect(first.catalogue).toBe(bytesOf(textOf('catalogue')) - 2)
  expect(first.catalogue).toBeGreaterThan(50)
  expect(first.plugins.garden?.lines).toBe(bytesOf(textOf('plugin')) - 2)
  // On a wire a tool has its kind around it.
  const specs = model.requests[0]!.tools
  const around = 32
  const toolBytes = (names: readonly string[]) =>
    specs
      .filter(({ name }: ToolSpec) => names.includes(name))
      .reduce((sum, spec) => sum + around + bytesOf(spec), 0)
  expect(first.plugins.garden?.tools).toBe(toolBytes(['look', 'call_worm']))
  expect(first.clientTools).toBe(toolBytes(['blink']))
  expect(Object.keys(first.plugins)).toEqual(['garden'])
  expect(first.kernel).toBeGreaterThan(toolBytes(['load_capability', 'list_capabilities']))
  // The words stand in the conversation, and then what was called and what it gave.
  expect(first.results).toBe(0)
  expect(first.summary).toBe(0)
  expect(first.history - bytesOf(words)).toBeLessThan(40)
  const gave = model.requests[1]!.messages.find(({ role }) => role === 'tool')!
  expect(Math.abs(second.results - bytesOf(gave.content))).toBeLessThan(80)
  expect(second.history).toBeGreaterThan(first.history)
  // A sub-agent reads its own prompt and task, and the tools that it may call.
  expect(worm).toMatchObject({ persona: 0, catalogue: 0, clientTools: 0, results: 0 })
  expect(worm.plugins.garden?.lines).toBe('You dig in the earth.'.length)
  expect(worm.plugins.garden?.tools).toBe(toolBytes(['look']))
  expect(last.results).toBeGreaterThan(second.results)
})

it('what is kept of a call is small, however many plugins are loaded', async () => {
  const many = Array.from({ length: 30 }, (_, nth) =>
    definePlugin({
      name: `a-plugin-with-a-rather-long-name-${nth}`,
      summary: 'Says much.',
      visibility: 'always',
      prompt: () => 'x'.repeat(1000 + nth),
    }),
  )
  const app = await testApp({ plugins: many, model: scriptedModel(['Yes.']) })
  onTestFinished(() => app.close())
  const user = await app.user()
  const { runId } = await user.say('Hello.')
  const [sent] = await sentOf(user, runId)
  expectWhole(sent!)
  expect(Object.keys(sent!.plugins)).toHaveLength(10)
  expect(sent!.plugins['a-plugin-with-a-rather-long-name-29']).toEqual({ lines: 1029, tools: 0 })
  expect(sent!.furtherPlugins?.lines).toBe(20 * 1000 + (19 * 20) / 2)
})

it('a summary in place of older messages is a part of its own', async () => {
  const { provider, app } = await withProvider({ window: 8000 }, { MODEL_CONTEXT_WINDOW: '8000' })
  provider.otherwise = (request) =>
    isSummaryRequest(request) ? 'They talked about the weather.' : 'Yes. '.repeat(100)
  const user = await app.user()
  let sessionId: string | undefined
  for (let nth = 1; nth <= 60; nth++) {
    const said = await user.say(kilobyte(nth), { sessionId })
    ;({ sessionId } = said)
    const [sent] = await sentOf(user, said.runId)
    expectWhole(sent!)
    if (!said.of('context').some(({ kind }) => kind === 'summarised')) {
      expect(sent!.summary).toBe(0)
      continue
    }
    expect(sent!.summary).toBeGreaterThan(60)
    expect(sent!.summary).toBeLessThan(250)
    return
  }
  throw new Error('Nothing was summarised.')
})

it('a question in words does not say what a tool redacts', async () => {
  const opened: { turns?: Turns; sessions?: PluginSessions } = {}
  const safe = definePlugin({
    name: 'safe',
    summary: 'Opens a safe.',
    visibility: 'always',
    tools: {
      open_safe: {
        description: 'Opens it.',
        approve: true,
        input: z.object({ pin: z.string(), why: z.string() }),
        redact: ['pin'],
        run: () => 'open',
      },
    },
    setup({ turns, sessions }) {
      Object.assign(opened, { turns, sessions })
      return undefined
    },
  })
  const pin = 'pin-7120-known'
  const model = scriptedModel([call('open_safe', { pin, why: 'a look' })])
  const app = await testApp({ plugins: [safe], model })
  onTestFinished(() => app.close())
  const user = { did: (await app.user()).did }
  const { sessionId: session } = await opened.sessions!.ensure({ user })
  let told = ''
  const turn = { user, session, message: 'Open it.', approvals: 'words' } as const
  // The text of the reply, which others may read who are not asked.
  for await (const event of opened.turns!.start(turn))
    if (event.event === 'message') told += event.data.content
  expect(told).toContain('a look')
  expect(told).toContain('[redacted]')
  expect(told).not.toContain(pin)
})
