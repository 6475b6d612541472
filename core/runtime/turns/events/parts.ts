import type { TurnEvent, TurnEvents, TurnPart } from '../../../plugin.ts'
import { isSaidNo } from './said-no.ts'

/** What of a turn is being told: words, or what the model thinks. */
type Open = 'text' | 'reasoning'

/**
 * A turn's events as parts, in order: every start has its end before anything else begins. Where another process goes on with
 * the turn, words that were told already are not told again.
 */
export async function* partsOf(
  events: AsyncIterable<TurnEvent>,
): AsyncGenerator<TurnPart, void, void> {
  const told = new Told()
  let held: TurnPart | undefined
  for await (const { event, data } of events) {
    switch (event) {
      case 'run':
        if (data.resumed) told.resume(data.partialLength ?? 0)
        break
      case 'message':
        yield* told.words('text', told.fresh(data.content))
        break
      case 'reasoning':
        if (data.parentEventId === undefined) yield* told.words('reasoning', data.reasoning)
        break
      case 'tool_call':
        // What a sub-agent calls stands within the call that started it.
        if (data.eventId !== data.toolCallId) break
        // The client hears of its own calls once the turn stands still.
        if (data.client && data.status === 'isRunning') break
        yield* told.close()
        yield partOf(data)
        break
      case 'action_call':
        yield* told.close()
        yield partOf(data)
        break
      case 'render_component': {
        yield* told.close()
        const { eventId: id, componentName: name, args, status = 'done' } = data
        yield { type: 'component', id, name, args, status }
        break
      }
      case 'progress':
        yield { type: 'progress', ...data }
        break
      case 'client_calls':
        held = { type: 'client-calls', ...data }
        break
      case 'interrupt': {
        const { runId, toolCallId, toolName, args, question, reason } = data
        const why = { ...(question && { question }), ...(reason && { reason }) }
        held = { type: 'approval', runId, toolCallId, toolName, args, ...why }
        break
      }
      case 'error':
        yield* told.close()
        yield { type: 'error', code: data.code, message: data.error, status: data.statusCode }
        break
      case 'done':
        yield* told.close()
        if (held && data.status === 'waiting') yield held
        yield endOf(data)
        return
    }
  }
  yield* told.close()
}

const endOf = ({ runId, status, usage, ended }: TurnEvents['done']): TurnPart => ({
  ...{ type: 'end', runId, status, usage },
  ...(ended && { ended }),
})

type CallEvent = Extract<TurnEvent, { event: 'tool_call' | 'action_call' }>['data']

function partOf({ toolCallId, toolName, args, status, output, error }: CallEvent): TurnPart {
  if (status === 'isRunning') return { type: 'call', toolCallId, toolName, args }
  const isDenied = error !== undefined && isSaidNo(toolName, error)
  const outcome = error === undefined ? { output } : { error, ...(isDenied && { isDenied }) }
  return { type: 'result', toolCallId, toolName, ...outcome }
}

/** What was told of a turn so far. */
class Told {
  #open: { readonly is: Open; readonly id: string } | undefined
  #count = 0
  /** The words so far, and how many of those that come next were told before another process took over. */
  #words = ''
  #again = ''

  /** Another process goes on from there. */
  resume(length: number): void {
    this.#again = this.#words.slice(length)
    this.#words = this.#words.slice(0, length)
  }

  /** What of these words was not told yet. */
  fresh(words: string): string {
    this.#words += words
    const known = this.#again
    if (known === '') return words
    if (known.startsWith(words)) {
      this.#again = known.slice(words.length)
      return ''
    }
    this.#again = ''
    // The model has gone another way, or has come to what was not told yet.
    return words.startsWith(known) ? words.slice(known.length) : words
  }

  *words(is: Open, text: string): Generator<TurnPart> {
    if (text === '') return
    if (this.#open?.is !== is) {
      yield* this.close()
      this.#open = { is, id: `${is}-${++this.#count}` }
      yield { type: `${is}-start`, id: this.#open.id }
    }
    yield { type: is, id: this.#open.id, text }
  }

  *close(): Generator<TurnPart> {
    if (this.#open) yield { type: `${this.#open.is}-end`, id: this.#open.id }
    this.#open = undefined
  }
}
