import { RuntimeError } from '../../../errors.ts'
import type { SaidBefore, User } from '../../../plugin.ts'
import { agreementOf, newestBranch } from '../branches/agreement.ts'
import { isWaiting } from '../indexes/open-runs.ts'
import { waitingCall } from '../journal/stop.ts'
import type { RunRow, RunStore } from '../journal/store.ts'
import type { ReadTurn } from '../new-turn.ts'
import type { Decision } from '../run.ts'
import { sessionBusy } from '../sessions/refusals.ts'
import { bareAnswer, questionCode } from '../waiting/in-words.ts'
import type { BegunRun, TurnDoor } from './door.ts'

/** How long a turn with a history waits for the end of the run under way. */
const patienceMs = 60_000
/** How much of a client's history a model reads. */
const [mostLines, mostBytes] = [400, 512 * 1024]
/** How many runs that wait are looked through for the one of a question. */
const mostWaiting = 50

/** What placing turns needs of the app. */
export interface PlacingParts {
  readonly runs: TurnDoor
  readonly store: RunStore
  readonly plugin: string
  /** Makes a branch of a conversation that ends before a message; resolves to its session. */
  fork?(did: string, sessionId: string, before: string): Promise<string>
}

/** Where a turn goes: into a session, or on with a run that has asked in words. */
export type Placed =
  | { readonly turn: ReadTurn }
  | { readonly known: BegunRun }
  | { readonly runId: string; readonly decision: Decision }

/** Finds the place of a turn that comes with a history, or whose words may answer a question. */
export async function placeTurn(parts: PlacingParts, user: User, turn: ReadTurn): Promise<Placed> {
  const { request, requestId, session } = turn
  const { history, approvals } = request
  if (history === undefined && approvals !== 'words') return { turn }
  const known =
    requestId === undefined ? undefined : await continuing(parts.store, user.did, requestId)
  if (known) return { known }
  if (await isKnown(parts, user.did, requestId)) return { turn }
  const placed =
    history && session !== undefined ? await inBranch(parts, user, turn, session, history) : turn
  if (approvals === 'words') {
    const answer = await answered(parts, user.did, placed, history)
    if (answer) return answer
  }
  return { turn: withLines(placed) }
}

/** The run that an answer of this name began. */
export async function continuing(
  store: RunStore,
  did: string,
  requestId: string,
): Promise<BegunRun | undefined> {
  const row = await store.db
    .selectFrom('kernel_runs')
    .select(['id', 'session_id'])
    .where('did', '=', did)
    .where('request_id', '=', requestId)
    .where('continues', 'is not', null)
    .executeTakeFirst()
  return row && { runId: row.id, requestId, sessionId: row.session_id }
}

/** Whether a turn of this name has begun: also while its repeat looks for its place. */
async function isKnown(
  { store }: PlacingParts,
  did: string,
  requestId: string | undefined,
): Promise<boolean> {
  if (requestId === undefined) return false
  const row = await store.db
    .selectFrom('kernel_runs')
    .select('id')
    .where('did', '=', did)
    .where('request_id', '=', requestId)
    .executeTakeFirst()
  return row !== undefined
}

/** The turn in the branch in which the conversation goes on as its client knows it. */
async function inBranch(
  parts: PlacingParts,
  { did }: User,
  turn: ReadTurn,
  session: string,
  history: readonly SaidBefore[],
): Promise<ReadTurn> {
  const { runs, store, plugin } = parts
  const { sessionId: root } = await runs.sessions.ensure(did, { id: session, plugin })
  const sessionId = await newestBranch(store.db, did, root)
  if (!(await untilStill(parts, did, turn, sessionId))) return turn
  const { waiting } = await runs.underway(sessionId)
  // What stands still goes with the branch that the client has left, or ends for its next message.
  const here: ReadTurn = {
    ...turn,
    session: sessionId,
    ...(waiting && { whenBusy: 'interrupt' as const }),
  }
  const whole = without(here)
  const agreement = await agreementOf(store.db, sessionId, history)
  if (agreement.is === 'same') return whole
  if (agreement.is !== 'shorter') return here
  if (await isKnown(parts, did, turn.requestId)) return turn
  try {
    const branch = await parts.fork?.(did, sessionId, agreement.before)
    return branch === undefined ? here : { ...whole, session: branch, whenBusy: turn.whenBusy }
  } catch (error) {
    // A conversation that takes no more branches goes on where it is, with what its client believes.
    if (error instanceof RuntimeError && full.has(error.code)) return here
    throw error
  }
}

const full = new Set(['BRANCHES_FULL', 'FORK_TOO_LARGE'])

/** The turn without a history: its session has all of it. */
function without(turn: ReadTurn): ReadTurn {
  const { history: _, ...request } = turn.request
  return { ...turn, request }
}

/** The turn with as much of its history as a model reads: the newest lines. */
function withLines(turn: ReadTurn): ReadTurn {
  const { history } = turn.request
  if (history === undefined) return turn
  let bytes = 0
  let from = history.length
  while (from > 0 && history.length - from < mostLines) {
    bytes += Buffer.byteLength(history[from - 1]?.content ?? '')
    if (bytes > mostBytes) break
    from--
  }
  return { ...turn, request: { ...turn.request, history: history.slice(from) } }
}

/**
 * Waits until nothing is under way in a session any more, or ends it where the turn is to take its place. Resolves to false where
 * the turn itself has begun meanwhile, sent twice at the same time.
 */
async function untilStill(
  parts: PlacingParts,
  did: string,
  { whenBusy, requestId }: ReadTurn,
  sessionId: string,
): Promise<boolean> {
  const { runs } = parts
  const until = performance.now() + patienceMs
  for (;;) {
    const { run } = await runs.underway(sessionId)
    if (!run) return true
    if (await isKnown(parts, did, requestId)) return false
    const left = until - performance.now()
    if (whenBusy === 'refuse' || left <= 0) throw sessionBusy(sessionId)
    if (whenBusy === 'interrupt') await runs.abort(did, sessionId)
    const reader = await runs.subscribe(run.runId)
    const timer = setTimeout(() => void reader.return?.(), left)
    try {
      for await (const { event } of reader) if (event === 'done') break
    } finally {
      clearTimeout(timer)
    }
  }
}

/**
 * The decision that a turn's words are, where the session has asked for one in words. Other words are a no: what was asked
 * about ends for the turn.
 */
async function answered(
  parts: PlacingParts,
  did: string,
  turn: ReadTurn,
  history: readonly SaidBefore[] | undefined,
): Promise<Placed | undefined> {
  const { runs, store } = parts
  const { session, request } = turn
  const { message } = request
  if (session === undefined) {
    const asked = questionCode(history?.at(-1)?.content ?? '')
    return asked === undefined ? undefined : await byCode(store, did, asked, message)
  }
  // A history that is not the session's is no answer to what the session asks.
  if (request.history !== undefined || !(await runs.sessions.isOwn(did, session))) return undefined
  const { waiting } = await runs.underway(session)
  const run = waiting && (await store.find(waiting.runId))
  const line = run && (await waitingCall(store.db, run))?.line
  if (run === undefined || line === undefined) return undefined
  return decisionOf(run, message, line) ?? { turn: { ...turn, whenBusy: 'interrupt' } }
}

/** The same where the client has no session: the question of the code, among those that this user was asked. */
async function byCode(
  store: RunStore,
  did: string,
  code: string,
  message: string,
): Promise<Placed | undefined> {
  const runs = await store.db
    .selectFrom('kernel_runs')
    .selectAll()
    .where('did', '=', did)
    .where(isWaiting)
    .orderBy('created_at', 'desc')
    .limit(mostWaiting)
    .execute()
  for (const run of runs) {
    const line = (await waitingCall(store.db, run))?.line
    if (line !== undefined && questionCode(line) === code) return decisionOf(run, message, line)
  }
  return undefined
}

function decisionOf(run: RunRow, message: string, line: string): Placed | undefined {
  const decision = bareAnswer(message, line)
  return decision && { runId: run.id, decision: { decision } }
}
