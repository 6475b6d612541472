import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Database, ErasedData } from '../../plugin.ts'
import { roomNameOf } from '../base/room-name.ts'
import type { Store } from '../store/store.ts'

/** What of the app takes part in an erasure beside the database. */
export interface KernelHands {
  readonly store: Pick<Store, 'db' | 'kind'>
  readonly oracleDid: string
  /** Ends a session with everything in it, its open runs first. */
  deleteSession(did: string, sessionId: string): Promise<void>
  /** Revokes the delegation that the user has stored. */
  revokeDelegation(did: string): Promise<unknown>
  /** Ends what the operator has granted. */
  endGrants(did: string): Promise<void>
  /** Ends the keys that the user has made. */
  endKeys(did: string): Promise<number>
  /** Forgets what this process keeps of the user's files. */
  forgetFiles(did: string): void
  /** Closes the user's sockets, on every replica. */
  closeSockets(did: string): void
}

/** How many sessions one query finds. */
const sessionsPerStep = 50
/** How long an erasure waits until everybody has heard that the user's runs have ended. */
const settling = { mostMs: 20_000, everyMs: 100 }

/** The tables that name their user in a column, in the order in which the rows go. */
const tables: readonly (readonly [table: string, column: string, kind: string | undefined])[] = [
  ['kernel_waiting_turns', 'did', 'waiting-turn'],
  ['kernel_jobs', 'did', 'job'],
  ['kernel_notices', 'did', 'notice'],
  ['kernel_notice_users', 'did', undefined],
  ['kernel_notice_mutes', 'did', 'muted-plugin'],
  ['kernel_delegations', 'user_did', 'delegation'],
  ['kernel_grants', 'did', 'grant'],
  ['kernel_keys', 'did', undefined],
  ['kernel_said_keys', 'did', undefined],
  ['kernel_said_counts', 'did', undefined],
  ['kernel_quarantine', 'did', undefined],
  ['kernel_turn_counts', 'who', 'turn-count'],
  ['kernel_idempotency', 'caller', 'kept-answer'],
  ['kernel_files', 'did', 'file'],
]

/** Ends the user's sessions, and with them the runs, the transcripts and what is kept of the rooms. */
export async function eraseSessions(
  hands: KernelHands,
  did: string,
  signal: AbortSignal,
): Promise<ErasedData> {
  const { store, oracleDid } = hands
  let sessions = 0
  let rooms = 0
  hands.closeSockets(did)
  for (;;) {
    signal.throwIfAborted()
    const { rows } = await sql<{ id: string; room: string | null }>`select id, room
      from kernel_sessions where did = ${did} order by id limit ${sql.lit(sessionsPerStep)}`.execute(
      store.db,
    )
    for (const { id, room } of rows) {
      // The state of a room goes before its session, or a crash between the two would leave it behind.
      if (room !== null) rooms += await eraseRoom(store.db, did, room)
      await hands.deleteSession(did, id)
      sessions++
    }
    if (rows.length < sessionsPerStep) break
  }
  const { numAffectedRows } = await sql`delete from kernel_room_state
    where room = ${roomNameOf({ did, oracleDid })}`.execute(store.db)
  await settled(hands, did, signal)
  return { erased: { session: sessions, 'room-state': rooms + Number(numAffectedRows ?? 0) } }
}

/** Deletes the state of a room that no other user has a session in. */
async function eraseRoom(db: Database, did: string, room: string): Promise<number> {
  const { numAffectedRows } = await sql`delete from kernel_room_state where room = ${room}
    and not exists (select 1 from kernel_sessions where room = ${room} and did <> ${did})`.execute(
    db,
  )
  return Number(numAffectedRows ?? 0)
}

/** Waits until nobody has yet to hear of an end of this user's: what is told of an end names the user. */
async function settled({ store }: KernelHands, did: string, signal: AbortSignal): Promise<void> {
  const named = JSON.stringify(did)
  const found =
    store.kind === 'postgres' ? sql`strpos(facts, ${named})` : sql`instr(facts, ${named})`
  for (const since = performance.now(); ;) {
    const { rows } = await sql<{ consumer: string }>`select consumer from kernel_unsettled
      where facts is not null and ${found} > 0 limit 1`.execute(store.db)
    const [first] = rows
    if (!first) return
    if (performance.now() - since > settling.mostMs)
      throw new Error(`${first.consumer} has not yet heard of the end of a run.`)
    await sleep(settling.everyMs, undefined, { signal })
  }
}

/** Deletes every row of the kernel's that names the user. What plugins wrote while they erased goes with it. */
export async function eraseRows(hands: KernelHands, did: string): Promise<ErasedData> {
  const { db } = hands.store
  await hands.revokeDelegation(did)
  await hands.endGrants(did)
  const erased: Record<string, number> = { key: await hands.endKeys(did) }
  await db.transaction().execute(async (trx) => {
    await sql`delete from kernel_file_uses where file_id in
      (select id from kernel_files where did = ${did})`.execute(trx)
    for (const [table, column, kind] of tables) {
      const { numAffectedRows } = await sql`delete from ${sql.table(table)}
        where ${sql.ref(column)} = ${did}`.execute(trx)
      if (kind !== undefined) erased[kind] = Number(numAffectedRows ?? 0)
    }
  })
  hands.forgetFiles(did)
  const { rows } = await sql<{ count: number }>`select count(*) as count from kernel_audit
    where who = ${did}`.execute(db)
  const lines = Number(rows[0]?.count ?? 0)
  if (lines === 0) return { erased }
  const why =
    'Who changed what has to be provable: a line has ids and no words, and nobody can change it before its time is over.'
  return { erased, kept: [{ what: `${lines} audit lines`, why }] }
}
