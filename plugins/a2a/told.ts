import { partsOf, type TurnEvent, type TurnPart } from '#core'

/** What of a turn a task tells. */
export type Told =
  | { readonly is: 'text'; readonly text: string }
  | { readonly is: 'component'; readonly id: string; readonly data: object }
  | { readonly is: 'end'; readonly state: EndState; readonly words?: string }

/** The states in which a turn stands still or has ended. */
export type EndState = 'COMPLETED' | 'CANCELED' | 'FAILED' | 'INPUT_REQUIRED' | 'AUTH_REQUIRED'

const states = {
  finished: 'COMPLETED',
  waiting: 'INPUT_REQUIRED',
  aborted: 'CANCELED',
  interrupted: 'CANCELED',
  failed: 'FAILED',
} as const satisfies Record<Extract<TurnPart, { type: 'end' }>['status'], EndState>

/** A turn as a task tells it: its words and components, then how it ended. */
export async function* toldOf(events: AsyncIterable<TurnEvent>): AsyncGenerator<Told, void, void> {
  const watched = new Watched(events)
  let last = ''
  let error: string | undefined
  for await (const part of partsOf(watched.read())) {
    if (part.type === 'text-start') last = ''
    else if (part.type === 'text') {
      last += part.text
      yield { is: 'text', text: part.text }
    } else if (part.type === 'component') {
      const { id, name, args } = part
      yield { is: 'component', id, data: { name, args } }
    } else if (part.type === 'error') error = part.message
    else if (part.type === 'end') {
      const isUnauthorised = part.status === 'finished' && watched.wantsDelegation
      const state = isUnauthorised ? 'AUTH_REQUIRED' : states[part.status]
      const asks = state === 'INPUT_REQUIRED' || state === 'AUTH_REQUIRED'
      // A question stands alone in the last paragraph of the words.
      const words =
        error ?? (asks ? last.split('\n').findLast((line) => line.trim() !== '') : undefined)
      yield { is: 'end', state, ...(words && { words }) }
    }
  }
}

/** Reads events, and notes whether the user's delegation was missing. */
class Watched {
  readonly #events: AsyncIterable<TurnEvent>
  wantsDelegation = false

  constructor(events: AsyncIterable<TurnEvent>) {
    this.#events = events
  }

  async *read(): AsyncGenerator<TurnEvent, void, void> {
    for await (const event of this.#events) {
      if (event.event === 'delegation_required') this.wantsDelegation = true
      yield event
    }
  }
}
