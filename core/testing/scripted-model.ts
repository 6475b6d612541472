import { setTimeout as pause } from 'node:timers/promises'
import type { Delta, EarlyEnd, Message, Model, ModelRequest } from '../plugin.ts'
import { unquote } from '../runtime/base/quote.ts'

/** A tool that the scripted model calls. */
export interface ScriptedCall {
  /** The name of the tool. */
  readonly call: string
  /** Arguments; the model sends text as it is, to try arguments that are no JSON. */
  readonly args?: unknown
}

/** An answer in full. What a script leaves out does not happen. */
export interface ScriptedAnswer {
  /** The reply: the model sends a text word by word, and an array piece by piece. */
  readonly text?: string | readonly string[]
  /** What the model thinks before it answers. */
  readonly reasoning?: string
  /** The tools that the model calls, all at once. */
  readonly calls?: readonly ScriptedCall[]
  /** What the call cost, in tokens. */
  readonly usage?: { readonly inputTokens: number; readonly outputTokens: number }
  /** What the model's provider wants back with the next request. */
  readonly provider?: unknown
  /** Why the answer ends early. */
  readonly ended?: EarlyEnd
  /** The time before the first piece, in milliseconds. */
  readonly delayMs?: number
  /** The time between two pieces, in milliseconds. */
  readonly paceMs?: number
  /** What the model throws after it has sent all the rest. */
  readonly error?: Error
}

/**
 * What the model does when it is asked once: words, one tool call or several at once, an error, an
 * answer in full, or a function of the request that gives one of these.
 */
export type ScriptedStep =
  | string
  | ScriptedCall
  | readonly ScriptedCall[]
  | Error
  | ScriptedAnswer
  | ((request: ModelRequest, nth: number) => ScriptedStep | Promise<ScriptedStep>)

/** A model that follows a script, and remembers its requests. */
export interface ScriptedModel extends Model {
  /** Every request so far, as it was when it came. */
  readonly requests: readonly ModelRequest[]
  /** How many steps of the script no call has used yet. A test that ends with steps left has not tested them. */
  readonly remaining: number
}

/** What a scripted model says of itself. */
export interface ScriptedOptions {
  readonly id?: string
  readonly contextWindow?: number
  /** The media types that the model reads beside text. */
  readonly reads?: Model['reads']
}

/**
 * A model for tests that does what it is told, one step per call:
 *
 *     const model = scriptedModel([
 *       call('find_book', { title: 'Things Fall Apart' }),
 *       (request) => `It said ${resultOf(request, 'find_book')}`,
 *     ])
 */
export function scriptedModel(
  steps: readonly ScriptedStep[],
  { id = 'scripted', contextWindow, reads }: ScriptedOptions = {},
): ScriptedModel {
  const requests: ModelRequest[] = []

  async function* stream(request: ModelRequest): AsyncGenerator<Delta> {
    const { messages, tools, signal, settings, file } = request
    signal.throwIfAborted()
    // A copy, because the caller may change the same list later.
    const copy = { messages: structuredClone(messages), tools: [...tools], signal }
    const nth = requests.push({ ...copy, ...(settings && { settings }), ...(file && { file }) }) - 1
    let step = steps[nth]
    if (step === undefined) throw new Error(tooFew(steps.length, nth, messages))
    while (typeof step === 'function') step = await step(request, nth)
    const answer = inFull(step)
    const wait = async (ms: number) => {
      if (ms > 0) await pause(ms, undefined, { signal }).catch(() => signal.throwIfAborted())
      signal.throwIfAborted()
    }
    await wait(answer.delayMs ?? 0)
    for (const delta of deltas(answer)) {
      yield delta
      await wait(answer.paceMs ?? 0)
    }
    if (answer.error) throw answer.error
  }

  return {
    id,
    contextWindow,
    ...(reads && { reads }),
    stream,
    requests,
    get remaining() {
      return Math.max(0, steps.length - requests.length)
    },
  }
}

/** A step of a script: the model calls this tool. */
export function call(name: string, args?: unknown): ScriptedCall {
  return { call: name, args }
}

/** The latest result of a tool in a request, parsed when it is JSON. Fails when there is none. */
export function resultOf(request: Pick<ModelRequest, 'messages'>, tool: string): unknown {
  const message = request.messages.findLast((one) => one.role === 'tool' && one.name === tool)
  if (!message) throw new Error(`The request has no result of "${tool}".`)
  const content = unquote(message.content)
  try {
    return JSON.parse(content)
  } catch {
    return content
  }
}

function inFull(step: Exclude<ScriptedStep, Function>): ScriptedAnswer {
  if (typeof step === 'string') return { text: step }
  if (step instanceof Error) return { error: step }
  if (isCalls(step)) return { calls: step }
  return 'call' in step ? { calls: [step] } : step
}

function isCalls(step: object): step is readonly ScriptedCall[] {
  return Array.isArray(step)
}

function* deltas({
  text = '',
  reasoning,
  calls = [],
  usage,
  provider,
  ended,
}: ScriptedAnswer): Generator<Delta> {
  if (reasoning) yield { type: 'reasoning', text: reasoning }
  for (const piece of typeof text === 'string' ? (text.match(/\s*\S+|\s+$/g) ?? []) : text)
    yield { type: 'text', text: piece }
  for (const [index, { call: name, args = {} }] of calls.entries()) {
    const json = typeof args === 'string' ? args : JSON.stringify(args)
    yield { type: 'tool-call', index, id: `call_${index}`, name, args: json }
  }
  if (ended) yield { type: 'ended', by: ended }
  if (usage) yield { type: 'usage', ...usage }
  if (provider !== undefined) yield { type: 'provider', data: provider }
}

function tooFew(count: number, nth: number, messages: readonly Message[]): string {
  const last = messages.at(-1)
  const said = last ? `${last.role}: ${last.content.slice(0, 200)}` : 'nothing'
  return `scriptedModel has ${count} steps, and this is call ${nth + 1}. The last message was ${said}`
}
