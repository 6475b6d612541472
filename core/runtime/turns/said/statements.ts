import { sql } from 'kysely'
import { prepared } from '../../store/prepared.ts'
import { insertWords } from '../journal/begin-queries.ts'
import type { EventBatch } from '../journal/event-lines.ts'
import type { RunStore } from '../journal/store.ts'
import { tellsAs, type Telling } from '../../store/channels/channels.ts'

/** How long words are counted together. */
export const countedMs = 60_000

/** The statements by which a plugin's words are recorded, compiled once for a store. */
export const saidStatements = (store: RunStore) => ({
  count: count(store),
  takeTurn: takeTurn(store),
  insertKey: insertKey(store),
  insertRun: insertRun(store),
  insertEvents: insertEvents(store),
  insertWords: insertWords(store),
})

/**
 * Counts words of a plugin to a user. The row is also the lock by which such words are recorded one after the other, on
 * every replica.
 */
const count = ({ db, now }: RunStore) =>
  prepared(db, (p: { did: string; plugin: string }) =>
    db
      .insertInto('kernel_said_counts')
      .values({ did: p.did, plugin: p.plugin, since: now, said: 1 })
      .onConflict((conflict) =>
        conflict.columns(['did', 'plugin']).doUpdateSet({
          said: sql<number>`case when kernel_said_counts.since + ${sql.lit(countedMs)} <= ${now}
            then 1 else kernel_said_counts.said + 1 end`,
          since: sql<number>`case when kernel_said_counts.since + ${sql.lit(countedMs)} <= ${now}
            then ${now} else kernel_said_counts.since end`,
        }),
      )
      .returning(['said', sql<number>`since + ${sql.lit(countedMs)} - ${now}`.as('leftMs')]),
  )

/** Takes the session's row and its next turn. */
const takeTurn = ({ db, now }: RunStore) =>
  prepared(db, (p: { session: string; did: string; title: string | null }) =>
    db
      .updateTable('kernel_sessions')
      .set((eb) => ({
        turns: eb('turns', '+', 1),
        updated_at: now,
        title: sql<string | null>`coalesce(title, ${p.title})`,
      }))
      .where('id', '=', p.session)
      .where('did', '=', p.did)
      .returning(['turns', 'title']),
  )

const insertKey = ({ db }: RunStore) =>
  prepared(
    db,
    (p: { did: string; plugin: string; key: string; session_id: string; run_id: string }) =>
      db.insertInto('kernel_said_keys').values({
        did: p.did,
        plugin: p.plugin,
        key: p.key,
        session_id: p.session_id,
        run_id: p.run_id,
      }),
  )

/** Inserts the run, at its end already, and tells the other replicas of it. */
const insertRun = ({ db, now, dialect }: RunStore) =>
  prepared(
    db,
    (
      p: {
        id: string
        session: string
        did: string
        turn: number
        events: number
        length: number
      } & Telling,
    ) =>
      db
        .insertInto('kernel_runs')
        .values({
          id: p.id,
          session_id: p.session,
          did: p.did,
          turn: p.turn,
          root_id: p.id,
          root_turn: p.turn,
          continues: null,
          decision: null,
          // The run answers no request of a client, so its own id stands in the place of one.
          request_id: p.id,
          status: 'finished',
          stop: null,
          owner: null,
          epoch: 1,
          attempts: 0,
          version: 1,
          last_seq: p.events,
          kept_seq: p.events,
          kept_length: p.length,
          steps: 1,
          checkpoint: null,
          purged: 0,
          lease_until: 0,
          created_at: now,
          ended_at: now,
        })
        .returning('id')
        .$if(dialect === 'postgres', (insert) =>
          insert.returning(tellsAs({ to: p.to, payload: p.payload, told: p.told }).as('told')),
        ),
  )

const insertEvents = ({ db }: RunStore) =>
  prepared(db, (p: EventBatch & { readonly run_id: string }) =>
    db.insertInto('kernel_run_events').values({
      run_id: p.run_id,
      first_seq: p.first_seq,
      last_seq: p.last_seq,
      body: p.body,
    }),
  )
