/** An item of an answer as the server sent it. A foreign server sends the fields, so each is checked where it is used. */
export interface OutputItem {
  readonly type?: unknown
  readonly id?: unknown
  readonly call_id?: unknown
  readonly name?: unknown
  readonly arguments?: unknown
  readonly phase?: unknown
  readonly content?: unknown
  readonly summary?: unknown
  readonly encrypted_content?: unknown
}

/** What a server wants back with an assistant message: its items, in their order. */
export interface Kept {
  readonly output: readonly OutputItem[]
}

/** A function call that can go back as it came. */
export interface KeptCall extends OutputItem {
  readonly call_id: string
  readonly name: string
}

/** What a function may be called on this wire. */
const wellNamed = /^[\w-]{1,64}$/

/** Whether an item is a function call that the server would take back. */
export function isCall(item: OutputItem): item is KeptCall {
  const { type, call_id, name } = item
  const isNamed = typeof name === 'string' && wellNamed.test(name)
  return type === 'function_call' && isNamed && typeof call_id === 'string' && call_id !== ''
}

/** Items that went back once, from the journal; undefined for what has another form. */
export function keptIn(data: unknown): Kept | undefined {
  if (typeof data !== 'object' || data === null || !('output' in data)) return undefined
  const { output } = data
  return Array.isArray(output) && output.every(isItem) ? { output } : undefined
}

function isItem(item: unknown): item is OutputItem {
  return typeof item === 'object' && item !== null
}

/**
 * What of an answer's items the server takes back; undefined where the text of the answer says it all. Reasoning counts only
 * sealed, because nothing is stored at the server, and only before what it led to.
 */
export function kept(items: readonly OutputItem[]): Kept | undefined {
  const last = items.findLastIndex(({ type }) => type !== 'reasoning')
  const whole = items.slice(0, last + 1)
  const sealed = whole.filter((item) => item.type !== 'reasoning' || isSealed(item))
  const says = (item: OutputItem) => item.type === 'message' && item.phase === undefined
  if (sealed.every(says)) return undefined
  // The server looks for the reasoning behind an item's id, and refuses the item without it.
  return { output: sealed.length < whole.length ? sealed.map(withoutId) : sealed }
}

function isSealed({ encrypted_content }: OutputItem): boolean {
  return typeof encrypted_content === 'string' && encrypted_content !== ''
}

/** An item without the id by which the server looks for the reasoning behind it. */
export function withoutId(item: OutputItem): OutputItem {
  if (item.type === 'reasoning') return item
  const { id: _, ...rest } = item
  return rest
}

/**
 * An item whose arguments are those of a call. A call that was cut off, or that the model wrote badly, has none: its result says
 * so, and servers refuse every later request with half of a JSON text.
 */
export function withArguments(item: OutputItem): OutputItem {
  if (item.type !== 'function_call' || isObjectText(item.arguments)) return item
  return { ...item, arguments: '{}' }
}

function isObjectText(text: unknown): boolean {
  try {
    const value: unknown = JSON.parse(String(text))
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  } catch {
    return false
  }
}
