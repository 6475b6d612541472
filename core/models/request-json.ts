import type { Message, ModelSettings, ToolSpec } from '../plugin.ts'
import type { Changes } from '../runtime/model/transport/wire.ts'

/** Makes a function that writes tools as JSON. Tools are the same from turn to turn, so the JSON of each is kept. */
export function toolWriter(form: (tool: ToolSpec) => object): (tool: ToolSpec) => string {
  const known = new WeakMap<ToolSpec, string>()
  return (tool) => {
    let json = known.get(tool)
    if (json === undefined) known.set(tool, (json = JSON.stringify(form(tool))))
    return json
  }
}

/**
 * Fields of a body as JSON, each with a comma before it. Left out is what is not set, what stands in `own` because nobody
 * sets it by hand, and what the server has refused.
 */
export function fieldsJson(
  fields: Readonly<Record<string, unknown>>,
  own: readonly string[],
  changes?: Changes,
): string {
  let json = ''
  for (const [name, value] of Object.entries(fields))
    if (value !== undefined && changes?.get(name) !== false && !own.includes(name))
      json += `,${JSON.stringify(name)}:${JSON.stringify(value)}`
  return json
}

/** What the system says. */
export function systemTexts(messages: readonly Message[]): readonly string[] {
  return messages.flatMap(({ role, content }) =>
    role === 'system' && content.trim() ? [content] : [],
  )
}

/**
 * The list that the model of this origin gave with an answer, under a name of its data; undefined for an answer of another
 * model. A message whose calls were changed does not fit the list any more, so then it is undefined too.
 */
export function keptList<Item>(
  message: Extract<Message, { role: 'assistant' }>,
  origin: string,
  name: string,
  isCall: (item: Item) => boolean,
): readonly Item[] | undefined {
  const { provider, toolCalls = [] } = message
  const data = provider?.by === origin ? provider.data : undefined
  if (typeof data !== 'object' || data === null) return undefined
  const list: unknown = Reflect.get(data, name)
  if (!Array.isArray(list) || list.length === 0) return undefined
  return list.filter(isCall).length === toolCalls.length ? list : undefined
}
