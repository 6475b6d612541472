import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { RuntimeError } from '../../../errors.ts'
import { argumentsType } from '../../../manifest/tools/tools.ts'
import type { AnySubAgent, Message, Schema, ToolCall } from '../../../plugin.ts'
import type { PluginRecord } from '../../base/plugin-record.ts'
import { specOf, type ToolEntry } from './entry.ts'
import { recordedError } from './tool-content.ts'

const usualInput = z.object({
  task: z
    .string()
    .min(1)
    .describe(
      'What to do, with everything that is needed to do it: the sub-agent knows nothing else.',
    ),
})

/** How long a sub-agent may take that sets no time of its own. */
const usualTimeoutMs = 300_000

/**
 * A sub-agent as a tool, `call_<name>`: the loop of a turn, with a prompt and tools of its own. The call counts as a read
 * and may run again after a crash: the journal has the steps of the sub-agent and the marks of its writes, so the second
 * run goes on where the first one stopped.
 */
export function subAgentTool(name: string, subAgent: AnySubAgent, record: PluginRecord): ToolEntry {
  const { description, input = usualInput, timeoutMs = usualTimeoutMs } = subAgent
  const toolName = `call_${name}`
  return {
    name: toolName,
    agent: name,
    record,
    spec: specOf(toolName, { description, input }),
    effect: 'read',
    // The result holds words of others only when the sub-agent has read some: its run then sets `calling.foreign`.
    foreign: false,
    timeoutMs,
    whenLate: 'What it did until then is done. Ask for a part of it, or tell the user.',
    input,
    run(args, calling) {
      const { delegate } = calling.site
      if (!delegate)
        throw new RuntimeError(
          'UNAVAILABLE',
          `"${toolName}" needs a model, and a thread of a test has none.`,
        )
      return delegate({ subAgent, record, args }, calling)
    },
  }
}

/** The tool by which a sub-agent with an `output` ends. */
export const returnResultName = 'return_result'

/** How often a sub-agent may mend what it returned. */
const repairs = 2

/** What a loop does next that does not end by words: it is over, it has failed, its model is told something, or it goes on. */
export type LoopEnding =
  | { readonly status: 'finished'; readonly content: string }
  | { readonly status: 'failed'; readonly error: RuntimeError }
  | { readonly status: 'told'; readonly message: Message }
  | undefined

/**
 * How a sub-agent with an `output` ends: by the call of `return_result` whose arguments fit. Everything is read from the
 * messages of the loop, so a process that takes the run over comes to the same judgement.
 */
export class Returning {
  /** The tool `return_result` of this sub-agent. */
  readonly entry: ToolEntry
  /** What the sub-agent's prompt says of its end. */
  readonly rule = `When you are done, call ${returnResultName} with the result. Only what it is called with is read.`
  readonly #name: string
  readonly #input: Schema
  readonly #isWrapped: boolean

  /** `name` is the name of the call of the sub-agent, for errors. */
  constructor(name: string, output: Schema) {
    this.#name = name
    // Models call tools with an object, so a result that is none stands in one.
    this.#isWrapped = argumentsType(output) !== 'object'
    this.#input = this.#isWrapped ? z.object({ result: output }) : output
    const description = 'Ends your work and hands over its result.'
    this.entry = {
      name: returnResultName,
      spec: specOf(returnResultName, { description, input: this.#input }),
      effect: 'read',
      foreign: false,
      input: this.#input,
      run: () => 'Returned.',
    }
  }

  /** What follows from the messages of the loop, once every call has its result. */
  judge(messages: readonly Message[]): LoopEnding {
    if (this.#returned(messages)) return { status: 'finished', content: '' }
    const failed = new Map<string, string>()
    for (const message of messages)
      if (message.role === 'tool' && message.name === returnResultName)
        failed.set(message.toolCallId, message.content)
    let wrong = 0
    let last: string | undefined
    for (const message of messages) {
      if (message.role !== 'assistant') continue
      const fault = message.toolCalls?.findLast(({ id }) => failed.has(id))
      if (message.toolCalls && !fault) continue
      wrong++
      last = fault && failed.get(fault.id)
    }
    if (wrong > repairs) return { status: 'failed', error: this.#gaveUp(last) }
    const newest = messages.at(-1)
    if (newest?.role !== 'assistant' || newest.toolCalls) return undefined
    const content = `Your words are not read. Call ${returnResultName} with the result.`
    return { status: 'told', message: { role: 'user', id: randomUUID(), content } }
  }

  /** The end of a loop whose model has no further call. */
  outOfCalls(calls: number) {
    const error = new RuntimeError(
      'SUBAGENT_RESULT_INVALID',
      `"${this.#name}" returned no result within ${calls} calls of its model.`,
      { hint: 'Ask for a part of it, or tell the user.' },
    )
    return { status: 'failed', error } as const
  }

  /** The result, as the `output` of the sub-agent parses it. */
  async value(messages: readonly Message[]): Promise<unknown> {
    const value = await z.parseAsync(this.#input, this.#returned(messages)?.args)
    return this.#isWrapped ? z.object({ result: z.unknown() }).parse(value).result : value
  }

  /** The call whose arguments fitted. */
  #returned(messages: readonly Message[]): ToolCall | undefined {
    const done = messages.find(
      (message) => message.role === 'tool' && message.name === returnResultName && !message.failed,
    )
    if (done?.role !== 'tool') return undefined
    for (const message of messages) {
      const calls = message.role === 'assistant' ? message.toolCalls : undefined
      const call = calls?.find(({ id }) => id === done.toolCallId)
      if (call) return call
    }
    return undefined
  }

  #gaveUp(last: string | undefined): RuntimeError {
    const why = last === undefined ? '' : ` The last fault: ${recordedError(last).message}`
    return new RuntimeError(
      'SUBAGENT_RESULT_INVALID',
      `"${this.#name}" returned nothing that fits its output, though it was told ${repairs} times.${why}`,
      { hint: 'Ask for it in other words or for a part of it, or tell the user.' },
    )
  }
}
