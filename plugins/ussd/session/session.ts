import type { State } from './engine.ts'
import type { SessionRow } from '../tables.ts'

/** A session as it is held in memory. Never changed: each step makes the next one. */
export interface Session {
  readonly id: string
  readonly phone: string
  readonly version: number
  /** How long the text was that led here, and its mark. */
  readonly length: number
  readonly mark: string
  /** What the phone shows. */
  readonly body: string
  readonly ended: boolean
  readonly state: State
  /** Since when a handler is at work on the last input; 0 when none is. */
  readonly workingSince: number
  /** Whether `body` came too late for the request that caused it. */
  readonly undelivered: boolean
  readonly touchedAt: number
  readonly expiresAt: number
}

/** A session as its row. */
export function toRow(session: Session): SessionRow {
  return {
    session_id: session.id,
    phone: session.phone,
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

/** The session of a row. */
export function fromRow(row: SessionRow): Session {
  return {
    id: row.session_id,
    phone: row.phone,
    version: row.version,
    length: row.length,
    mark: row.mark,
    body: row.body,
    ended: row.status === 'done',
    // Written by toRow alone.
    state: JSON.parse(row.state) as State,
    workingSince: row.working_since,
    undelivered: row.undelivered === 1,
    touchedAt: row.touched_at,
    expiresAt: row.expires_at,
  }
}

const texts = new WeakMap<State, string>()

/** Most sessions stand on the same few states, such as the welcome screen's: their text is made once. */
function stateText(state: State): string {
  const known = texts.get(state)
  if (known !== undefined) return known
  const text = JSON.stringify(state)
  texts.set(state, text)
  return text
}

/** What a gateway is told: the first word says whether the session goes on. */
export const answerOf = ({ ended, body }: Pick<Session, 'ended' | 'body'>): string =>
  `${ended ? 'END' : 'CON'} ${body}`

/** What a phone typed, without what no phone can type. */
export const sanitised = (input: string): string => input.replace(/\p{Cc}/gu, '').trim()
