import {
  type Changes,
  ConversationJson,
  fieldsJson,
  functionTool,
  toolWriter,
  type Message,
  type ModelRequest,
  withForcedTool,
} from '#core/models'
import { effortFor } from './changes.ts'
import { callIds, itemsOf, itemsWithParts, thoughtIds } from './input.ts'

type Settings = NonNullable<ModelRequest['settings']>

/** How many items of reasoning that the server cannot read are remembered: a few hundred conversations. */
const mostUnread = 10_000

/** Writes the `/responses` requests of one model. */
export class ResponsesRequests {
  readonly #model: string
  /** The ids of calls in the conversation that is being written. */
  #ids: ReadonlyMap<string, string> = new Map()
  /** The reasoning that the server could not unseal, by the ids of its items, the oldest first. */
  readonly #unread = new Set<unknown>()
  #times = 0
  #conversations = this.#writer()

  constructor(model: string) {
    this.#model = JSON.stringify(model)
  }

  /**
   * Leaves out the reasoning of a conversation from now on, because the server cannot unseal it. It is a change of the
   * request; undefined where the request had none.
   */
  leaveThoughts({ messages }: ModelRequest): readonly [name: string, value: unknown] | undefined {
    const thoughts = messages.flatMap(thoughtIds).filter((id) => !this.#unread.has(id))
    if (thoughts.length === 0) return undefined
    for (const id of thoughts) this.#unread.add(id)
    for (const id of this.#unread) {
      if (this.#unread.size <= mostUnread) break
      this.#unread.delete(id)
    }
    this.#conversations = this.#writer()
    return ['thoughts', ++this.#times]
  }

  #writer(): ConversationJson {
    return new ConversationJson((message) => listed(itemsOf(message, this.#ids, this.#unread)))
  }

  /** The body of a request; a promise where messages have parts, whose bytes have to be read. */
  body(asked: ModelRequest, changes: Changes): string | Promise<string> {
    const request = changes.has('text.format') ? withForcedTool(asked) : asked
    const { messages } = request
    const ids = callIds(messages)
    if (messages.some(hasParts))
      return itemsWithParts(request, ids, this.#unread).then((items) =>
        this.#around(listed(items), request, changes),
      )
    this.#ids = ids
    return this.#around(this.#conversations.write(messages), request, changes)
  }

  #around(input: string, { tools, settings = {} }: ModelRequest, changes: Changes): string {
    // The server keeps nothing, so the model's thoughts come sealed and go back with the next request.
    const store = changes.has('store') ? '' : ',"store":false'
    const include = changes.has('include') ? '' : ',"include":["reasoning.encrypted_content"]'
    const ofTools = tools.length > 0 ? `,"tools":[${tools.map(toolJson).join()}]` : ''
    const set = settingsJson(settings, changes, tools.length > 0)
    return `{"model":${this.#model},"stream":true${store}${include}${set},"input":[${input}]${ofTools}}`
  }
}

function hasParts(message: Message): boolean {
  return (message.role === 'user' || message.role === 'tool') && Boolean(message.parts?.length)
}

/** The items as they stand in a list. */
function listed(items: readonly object[]): string {
  return items.map((item) => JSON.stringify(item)).join()
}

const toolJson = toolWriter((tool) => {
  const { type, function: described } = functionTool(tool)
  // This wire is strict unless told otherwise, and then makes every field of a tool a required one.
  return { type, ...described, strict: false }
})

const efforts = { none: 'none', low: 'low', medium: 'medium', high: 'high', max: 'xhigh' } as const
/** The fewest tokens that the wire takes as the longest answer. */
const leastLength = 16
/** Fields that are never set by hand. */
const own = ['model', 'input', 'messages', 'tools', 'stream', 'store', 'previous_response_id']

/** The settings of a request as fields of its body, each with a comma before it. What the server refused is left out. */
function settingsJson(settings: Settings, changes: Changes, hasTools: boolean): string {
  const { temperature, topP, maxOutputTokens, reasoning, toolChoice, object } = settings
  const fields: Readonly<Record<string, unknown>> = {
    temperature: changes.has('temperature') ? undefined : temperature,
    top_p: changes.has('top_p') ? undefined : topP,
    max_output_tokens: lengthFor(maxOutputTokens, changes.get('length')),
    reasoning: reasoning && thinking(efforts[reasoning], changes),
    tool_choice: hasTools && !changes.has('tool_choice') ? choiceOf(toolChoice) : undefined,
    text: object && { format: formatOf(object) },
    ...settings.body,
  }
  return fieldsJson(fields, own)
}

function lengthFor(wanted: number | undefined, most: unknown): number | undefined {
  if (wanted === undefined || most === false) return undefined
  return Math.max(leastLength, typeof most === 'number' ? Math.min(most, wanted) : wanted)
}

function thinking(wanted: string, changes: Changes): object | undefined {
  const effort = effortFor(wanted, changes)
  if (effort === undefined) return undefined
  // A model that does not think has nothing to sum up.
  const isTold = wanted !== 'none' && !changes.has('summary')
  return { effort, ...(isTold && { summary: 'auto' }) }
}

function formatOf({ name, schema }: NonNullable<Settings['object']>): object {
  const { $schema: _, ...plain } = schema
  return { type: 'json_schema', name, schema: plain }
}

function choiceOf(choice: Settings['toolChoice']): unknown {
  return typeof choice === 'object' ? { type: 'function', name: choice.tool } : choice
}
