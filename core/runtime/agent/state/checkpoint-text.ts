import type { SerializerProtocol } from '@langchain/langgraph-checkpoint'

/**
 * A value of the graph's state as text. Plain data becomes plain JSON. Everything else (a Map, an instance of a message,
 * undefined) goes through LangGraph's serializer, and its text begins with `!`, as no JSON does. The serializer costs a
 * promise for every value inside a value, so it does not get the plain data.
 */
export async function toText(value: unknown, serde: SerializerProtocol): Promise<string> {
  if (isPlain(value)) return JSON.stringify(value)
  const [type, bytes] = await serde.dumpsTyped(value)
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return type === 'json' ? `!json ${buffer.toString()}` : `!${type} ${buffer.toString('base64')}`
}

/** Reads the value back from a text that `toText` made. */
export async function fromText(text: string, serde: SerializerProtocol): Promise<unknown> {
  if (!text.startsWith('!')) return JSON.parse(text)
  const space = text.indexOf(' ')
  const type = text.slice(1, space)
  const body = text.slice(space + 1)
  return await serde.loadsTyped(type, type === 'json' ? body : Buffer.from(body, 'base64'))
}

/** How deep `isPlain` looks: deeper than real state nests, and less deep than the stack allows. A circle ends here. */
const deepest = 500

/** Whether JSON gives the same value back. It drops a property that is undefined, and reading such a property gives the same. */
function isPlain(value: unknown, depth = 0): boolean {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return true
    case 'number':
      return Number.isFinite(value)
    case 'object':
      break
    default:
      return false
  }
  if (value === null) return true
  if (depth > deepest) return false
  if (Array.isArray(value)) {
    for (const item of value) if (!isPlain(item, depth + 1)) return false
    return true
  }
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return false
  for (const item of Object.values(value))
    if (item !== undefined && !isPlain(item, depth + 1)) return false
  return true
}
