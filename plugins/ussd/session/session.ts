import type { State } from './engine.ts'
import type { SessionRow } from '../tables.ts'

/** A session in memory. The object never changes: each step makes a new one. */
export interface Session {
  readonly id: string
  readonly phone: string
  /** The code of the caller's network and the name of its operator, where the gateway told them. */
  readonly network: string | undefined
  readonly operator: string | undefined
  readonly version: number
  /** How far the session has come, as `Typed` counts, and the mark of what was typed. */
  readonly length: number
  readonly mark: string
  /** The text of the present screen. */
  readonly body: string
  readonly ended: boolean
  readonly state: State
  /** The time at which a handler began to work on the last input; 0 when no handler works. */
  readonly workingSince: number
  /** Whether `body` came too late for the request that caused it. */
  readonly undelivered: boolean
  readonly touchedAt: number
  readonly expiresAt: number
}

/** Makes the row of a session. */
export function toRow(session: Session): SessionRow {
  return {
    session_id: session.id,
    phone: session.phone,
    network: session.network ?? null,
    operator: session.operator ?? null,
    version: session.version,
    length: session.length,
    mark: session.mark,
    body: session.body,
    status: session.ended ? 'done' : 'active',
    state: stateText(session.state),
    working_since: session.workingSince,
    undelivered: session.undelivered ? 1 : 0,
    touched_at: session.touchedAt,
    expires_at: session.expiresAt,
  }
}

/** Makes the session of a row. */
export function fromRow(row: SessionRow): Session {
  return {
    id: row.session_id,
    phone: row.phone,
    network: row.network ?? undefined,
    operator: row.operator ?? undefined,
    version: row.version,
    length: row.length,
    mark: row.mark,
    body: row.body,
    ended: row.status === 'done',
    // Only toRow writes this column, so the JSON needs no check.
    state: JSON.parse(row.state) as State,
    workingSince: row.working_since,
    undelivered: row.undelivered === 1,
    touchedAt: row.touched_at,
    expiresAt: row.expires_at,
  }
}

const texts = new WeakMap<State, string>()

/** The JSON of a state. Many sessions share a state object, such as the welcome screen's, whose JSON is made only once. */
function stateText(state: State): string {
  const known = texts.get(state)
  if (known !== undefined) return known
  const text = JSON.stringify(state)
  texts.set(state, text)
  return text
}

/** The answer to a gateway, whose first word says whether the session continues. */
export const answerOf = ({ ended, body }: Pick<Session, 'ended' | 'body'>): string =>
  `${ended ? 'END' : 'CON'} ${body}`

/** An input without control characters, which no phone can type. */
export const sanitised = (input: string): string => input.replace(/\p{Cc}/gu, '').trim()
