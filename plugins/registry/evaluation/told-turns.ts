import { type Kysely, sql } from 'kysely'
import { RuntimeError, type Turns } from '#core'
import type { ClaimRow } from '../claims/tables.ts'
import type { RegistryDatabase } from '../tables.ts'

/** A turn of the agent about a claim: whose words it was told, and the session of the oracle that it is in. */
type ToldTurnRow = { claim: string; session: string; submitter: string; subject: string }

const withTurns = (db: RegistryDatabase) =>
  db.withTables<{ registry_evaluation_turns: ToldTurnRow }>()

/** The name of the turn that evaluates a claim. */
export const turnOf = (claim: string): string => `evaluate-${claim}`

/** Makes the table of the turns that evaluated claims. */
export async function createToldTurns(db: Kysely<any>) {
  // any: a migration sees tables that no type knows yet
  await db.schema
    .createTable('registry_evaluation_turns')
    .addColumn('claim', 'varchar(36)', (column) => column.primaryKey())
    .addColumn('session', 'text', (column) => column.notNull())
    .addColumn('submitter', 'text', (column) => column.notNull())
    .addColumn('subject', 'text', (column) => column.notNull())
    .execute()
  for (const column of ['submitter', 'subject'])
    await db.schema
      .createIndex(`registry_evaluation_turns_by_${column}`)
      .on('registry_evaluation_turns')
      .column(column)
      .execute()
}

/** Notes where a claim is told to the agent. False where the claim was erased meanwhile: then the turn is to be taken back. */
export async function noteTurn(
  db: RegistryDatabase,
  { id, submitter, subject }: Pick<ClaimRow, 'id' | 'submitter' | 'subject'>,
  session: string,
): Promise<boolean> {
  await withTurns(db)
    .insertInto('registry_evaluation_turns')
    .values({ claim: id, session, submitter, subject })
    .onConflict((conflict) => conflict.column('claim').doUpdateSet({ session }))
    .execute()
  const { rows } = await sql`select 1 from registry_claims where id = ${id}`.execute(db)
  return rows.length > 0
}

/** What turns are taken back with. */
export interface TakingBack {
  readonly turns: Pick<Turns, 'redact'>
  readonly oracleDid: string
}

/**
 * Takes back what the agent was told of a user: the turns about claims that the user made, about what the user controls, and
 * about what the user once made a claim about, because those quote the earlier claims. How many there were.
 */
export async function takeBackOf(
  did: string,
  db: RegistryDatabase,
  { turns, oracleDid }: TakingBack,
): Promise<number> {
  const { rows } = await sql<ToldTurnRow>`select * from registry_evaluation_turns
    where submitter = ${did} or subject = ${did}
      or subject in (select did from registry_entities where controller = ${did})
      or subject in (select subject from registry_claims where submitter = ${did})`.execute(db)
  for (const { claim, session } of rows) {
    const turn = { user: { did: oracleDid }, session, requestId: turnOf(claim) }
    await turns.redact(turn).catch((error: unknown) => {
      // The session is gone already, and the words with it.
      if (!(error instanceof RuntimeError && error.code === 'NOT_FOUND')) throw error
    })
    await withTurns(db).deleteFrom('registry_evaluation_turns').where('claim', '=', claim).execute()
  }
  return rows.length
}
