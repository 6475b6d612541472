import { randomUUID } from 'node:crypto'
import { onTestFinished } from 'vitest'
import {
  definePlugin,
  type AppOptions,
  type Delta,
  type Model,
  type ModelRequest,
  type RuntimeError,
  type Turns,
} from '#core'
import { testApp, type TestApp } from '#core/testing'
import type { ModelReply } from '../../core/plugin.ts'

/** What a model call came to, with what the provider counted. */
export type Reply = ModelReply & Partial<Pick<Answered, 'usage'>>

interface Asked {
  readonly request: ModelRequest
  readonly reply: PromiseWithResolvers<Reply>
}

/** A model within an app: plugins read it from the context of a turn, and stand around its calls. */
export class ModelInApp {
  readonly #app: TestApp
  readonly #turns: Turns
  readonly #asked: Map<string, Asked>
  /** The model as plugins get it. */
  readonly model: Model

  private constructor(app: TestApp, turns: Turns, asked: Map<string, Asked>, model: Model) {
    this.#app = app
    this.#turns = turns
    this.#asked = asked
    this.model = model
  }

  static async open(options: Omit<AppOptions, 'plugins'>, name?: string): Promise<ModelInApp> {
    const asked = new Map<string, Asked>()
    const told = Promise.withResolvers<Turns>()
    const found = Promise.withResolvers<Model>()
    const asker = definePlugin({
      name: 'asker',
      summary: 'Asks the model of a turn what a test wants to ask it.',
      visibility: 'silent',
      setup: (boot) => told.resolve(boot.turns),
      middleware: {
        async model(ctx, next) {
          found.resolve(ctx.model)
          const one = asked.get(ctx.request.messages.at(-1)?.content ?? '')
          if (one) {
            ctx.request = one.request
            await next().then(one.reply.resolve, one.reply.reject)
          }
          return { content: 'It was asked.', toolCalls: [] }
        },
      },
    })
    const app = await testApp({ ...options, plugins: [asker] })
    const said = await (await app.user()).say('Hello', { body: { model: name } })
    if (said.status !== 'finished') throw new Error(`The turn ended as ${said.status}.`)
    return new ModelInApp(app, await told.promise, asked, await found.promise)
  }

  /** Asks the model within a turn, and resolves to what a layer around the model reads of its answer. */
  async reply(request: ModelRequest): Promise<Reply> {
    const message = randomUUID()
    const { promise, ...reply } = Promise.withResolvers<Reply>()
    this.#asked.set(message, { request, reply: { promise, ...reply } })
    const turn = this.#turns.start({ user: { did: 'did:key:zAsker' }, message })
    const ended = (async () => {
      for await (const { event, data } of turn)
        if (event === 'error') reply.reject(new Error(JSON.stringify(data)))
    })()
    await Promise.allSettled([promise, ended])
    return promise
  }

  close(): Promise<void> {
    return this.#app.close()
  }
}

/** A model within an app, for the length of a test; `name` chooses one of several as a message does. */
export async function modelInApp(
  options: Omit<AppOptions, 'plugins'>,
  name?: string,
): Promise<ModelInApp> {
  const app = await ModelInApp.open(options, name)
  onTestFinished(() => app.close())
  return app
}

/** The model `name` behind an OpenAI-compatible endpoint, as an operator sets it. */
export const openAiInApp = (
  baseUrl: string,
  { name = 'small', apiKey }: { name?: string; apiKey?: string } = {},
): Promise<ModelInApp> =>
  modelInApp({
    env: {
      MODEL: `openai/${name}`,
      OPENAI_BASE_URL: baseUrl,
      ...(apiKey !== undefined && { OPENAI_API_KEY: apiKey }),
    },
  })

/** The faults of a boot that must fail. */
export async function faultsOf(options: AppOptions): Promise<readonly RuntimeError[]> {
  const error = await testApp(options).then(
    async (app) => {
      await app.close()
      throw new Error('The app booted, and should not have.')
    },
    (error: RuntimeError) => error,
  )
  return (error.details as { faults: readonly RuntimeError[] }).faults
}

/** What a model answered, put together. */
export interface Answered {
  readonly content: string
  readonly reasoning?: string
  readonly toolCalls: readonly { readonly name: string; readonly args: unknown }[]
  readonly usage?: { readonly inputTokens: number; readonly outputTokens: number }
}

/** Puts the deltas of an answer together; `onDelta` sees each as it comes. A call's arguments that are no JSON stay text. */
export async function answered(
  deltas: AsyncIterable<Delta>,
  onDelta?: (delta: Delta) => void,
): Promise<Answered> {
  let content = ''
  let reasoning = ''
  let usage: Answered['usage']
  const calls = new Map<number, { name: string; args: string }>()
  for await (const delta of deltas) {
    if (delta.type === 'text') content += delta.text
    if (delta.type === 'reasoning') reasoning += delta.text
    if (delta.type === 'usage')
      usage = { inputTokens: delta.inputTokens, outputTokens: delta.outputTokens }
    if (delta.type === 'tool-call') {
      const call = calls.get(delta.index) ?? { name: '', args: '' }
      calls.set(delta.index, {
        name: delta.name || call.name,
        args: call.args + (delta.args ?? ''),
      })
    }
    onDelta?.(delta)
  }
  return {
    content,
    ...(reasoning !== '' && { reasoning }),
    toolCalls: [...calls]
      .sort(([a], [b]) => a - b)
      .map(([, { name, args }]) => ({ name, args: argsIn(args) })),
    ...(usage && { usage }),
  }
}

function argsIn(text: string): unknown {
  if (text.trim() === '') return {}
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
