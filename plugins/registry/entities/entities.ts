import { prepared } from '#core'
import type { Actor } from '../rights/actor.ts'
import type { Asked, creation } from './create.ts'
import { entityOf, tombstoneOf, type Entity } from './entity.ts'
import { gone, notFound } from '../refusal.ts'
import { entitiesOf, everything, type Reader } from '../rights/reader.ts'
import type { EntityRequest } from '../request.ts'
import type { EdgeRow, EntityRow, RegistryDatabase } from '../tables.ts'
import type { Write, Writing } from '../writing.ts'

/** Entities one by one. Every read takes a transaction to read in; without it, it reads what is committed. */
export function entities(
  db: RegistryDatabase,
  write: Write,
  { vet, createAll }: ReturnType<typeof creation>,
) {
  const byDid = prepared(db, (p: { did: string }) =>
    db.selectFrom('registry_entities').selectAll().where('did', '=', p.did),
  )
  const edgesFrom = prepared(db, (p: { did: string }) =>
    db.selectFrom('registry_edges').selectAll().where('source', '=', p.did).orderBy('position'),
  )

  async function findRow(did: string, on = db): Promise<EntityRow | undefined> {
    return (await byDid({ did }, on)).rows[0]
  }

  /** The row of an entity that is there and active: 404 and 410 else. */
  async function activeRow(did: string, on = db): Promise<EntityRow> {
    const row = await findRow(did, on)
    if (!row) throw notFound('entity', did)
    if (row.status !== 'active') throw gone(did, tombstoneOf(row))
    return row
  }

  const seenBy = prepared(db, (p: { did: string; reader: string }) =>
    db
      .selectFrom('registry_entities')
      .select('did')
      .where('did', '=', p.did)
      .where(entitiesOf({ did: p.reader })),
  )

  /** Refuses who does not see an entity as if it were not there. */
  async function mustSee(did: string, reader: Reader): Promise<void> {
    if (reader.did === undefined) return
    const { rows } = await seenBy({ did, reader: reader.did })
    if (rows.length === 0) throw notFound('entity', did)
  }

  async function edgesOf(row: EntityRow, on = db): Promise<EdgeRow[]> {
    return row.edges_made === 0 ? [] : (await edgesFrom({ did: row.did }, on)).rows
  }

  async function create(writing: Writing, asked: readonly Asked[]): Promise<Entity> {
    const [outcome] = await createAll(writing, asked)
    if (!outcome?.row) throw outcome?.error
    return entityOf(outcome.row, outcome.edges)
  }

  return {
    findRow,
    activeRow,
    edgesOf,
    mustSee,

    /** The active entity: 404 when the reader sees none, 410 with the tombstone when it was deactivated. */
    async read(did: string, reader: Reader = everything): Promise<Entity> {
      await mustSee(did, reader)
      const row = await activeRow(did)
      return entityOf(row, await edgesOf(row))
    },

    async create(actor: Actor, request: EntityRequest): Promise<Entity> {
      const asked = await vet([request])
      return write(actor, (writing) => create(writing, asked))
    },
  }
}
export type Entities = ReturnType<typeof entities>
