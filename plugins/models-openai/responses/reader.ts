import {
  type Asked,
  callSlots,
  type Delta,
  type EarlyEnd,
  type FrameReader,
  modelFault,
  type ModelUsage,
  providerFault,
} from '#core/models'
import { kept, type OutputItem } from './output.ts'
import { usageOf, type Counted } from './usage.ts'

/** The fields of an event that `EventReader` reads. A foreign server sends them, so each is checked where it is used. */
interface Event {
  readonly type?: unknown
  readonly delta?: unknown
  readonly output_index?: unknown
  readonly item_id?: unknown
  readonly summary_index?: unknown
  readonly item?: OutputItem | null
  readonly response?: Response | null
  // A server that does not stream answers with the response itself.
  readonly object?: unknown
}
interface Response {
  readonly output?: unknown
  readonly usage?: Counted | null
  readonly error?: { readonly message?: unknown } | null
  readonly incomplete_details?: { readonly reason?: unknown } | null
}

/** Reads the events of one response, in order, into deltas. */
export class EventReader implements FrameReader {
  finished = false
  done = false
  /** How many characters are held for the server. */
  kept = 0
  readonly #asked: Asked
  readonly #slots = callSlots()
  readonly #items: OutputItem[] = []
  /** The items of which something was told already, by their place. */
  readonly #told = new Set<unknown>()
  #usage: ModelUsage | undefined
  #ended: EarlyEnd | undefined
  #spoke = false
  #called = false
  #thought = false

  constructor(asked: Asked) {
    this.#asked = asked
  }

  /** Reads one event, or the whole response of a server that does not stream, and adds its deltas to `onto`. */
  take(event: Event | null, onto: Delta[]): void {
    if (event?.object === 'response') this.#end(event as Response, onto)
    else if (event) this.#read(event, onto)
    this.#spoke ||= onto.some(({ type }) => type === 'text' || type === 'tool-call')
  }

  last(): readonly Delta[] {
    const data = kept(this.#items)
    return [
      ...(this.#ended ? [{ type: 'ended', by: this.#ended } as const] : []),
      ...(this.#usage ? [{ type: 'usage', ...this.#usage } as const] : []),
      ...(data ? [{ type: 'provider', data } as const] : []),
    ]
  }

  #read(event: Event, onto: Delta[]): void {
    const at = event.output_index ?? event.item_id
    switch (event.type) {
      case 'response.output_text.delta':
      case 'response.refusal.delta':
        if (event.delta) this.#told.add(at)
        return this.#say(event.delta, onto)
      case 'response.reasoning_summary_part.added':
        // The parts of a summary are paragraphs.
        if (this.#thought && event.summary_index !== 0)
          onto.push({ type: 'reasoning', text: '\n\n' })
        return
      case 'response.reasoning_summary_text.delta':
      case 'response.reasoning_text.delta':
        if (event.delta) this.#told.add(at)
        return this.#think(event.delta, onto)
      case 'response.output_item.added':
        if (event.item?.type === 'function_call') this.#call(at, event.item, undefined, onto)
        return
      case 'response.function_call_arguments.delta':
        if (event.delta) this.#told.add(at)
        return this.#call(at, {}, event.delta, onto)
      case 'response.output_item.done':
        return this.#keep(at, event.item, onto)
      case 'response.completed':
      case 'response.incomplete':
        return this.#end(event.response ?? {}, onto)
      case 'response.failed':
        throw this.#fault(event.response?.error ?? {})
      case 'error':
        throw this.#fault(event)
    }
  }

  /** Takes an item that is whole. What of it no piece has told is told now. */
  #keep(at: unknown, item: OutputItem | null | undefined, onto: Delta[]): void {
    if (typeof item !== 'object' || item === null) return
    this.#items.push(item)
    this.kept += JSON.stringify(item).length
    if (this.#told.has(at)) return
    if (item.type === 'function_call') this.#call(at, item, item.arguments, onto)
    else if (item.type === 'reasoning')
      for (const { text } of texts(item.summary)) this.#think(text, onto)
    else if (item.type === 'message')
      for (const { text, refusal } of texts(item.content)) this.#say(text ?? refusal, onto)
  }

  #end(response: Response, onto: Delta[]): void {
    if (response.error) throw this.#fault(response.error)
    const { output } = response
    // Some servers name the items at the end alone.
    if (this.#items.length === 0 && Array.isArray(output))
      output.forEach((item: OutputItem | null, at) => this.#keep(at, item, onto))
    this.#usage = usageOf(response.usage) ?? this.#usage
    this.finished = this.done = true
    const spoke = this.#spoke || onto.some(({ type }) => type !== 'reasoning')
    const reason = response.incomplete_details?.reason
    // Words that were said before stand; calls of an answer that was refused are not carried out.
    if (reason === 'content_filter' && (this.#called || !spoke))
      throw modelFault(
        'MODEL_REFUSED',
        this.#asked.host,
        'refused to answer this for reasons of content.',
      )
    if (reason === 'max_output_tokens') this.#ended = 'length'
    else if (reason === 'content_filter') this.#ended = reason
  }

  #call(at: unknown, { call_id: id, name }: OutputItem, args: unknown, onto: Delta[]): void {
    const delta = this.#slots({ index: at, id, name, args })
    if (!delta) return
    this.#called = true
    onto.push(delta)
  }

  #say(words: unknown, onto: Delta[]): void {
    if (typeof words === 'string' && words) onto.push({ type: 'text', text: words })
  }

  #think(words: unknown, onto: Delta[]): void {
    if (typeof words !== 'string' || !words) return
    this.#thought = true
    onto.push({ type: 'reasoning', text: words })
  }

  #fault(error: object): Error {
    return providerFault({ text: JSON.stringify({ error }) }, this.#asked)
  }
}

/** The parts of a message or a summary. */
function texts(parts: unknown): readonly { readonly text?: unknown; readonly refusal?: unknown }[] {
  return Array.isArray(parts)
    ? parts.filter((part) => typeof part === 'object' && part !== null)
    : []
}
