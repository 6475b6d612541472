import { createHash } from 'node:crypto'
import type { Protocols } from '../protocols/protocols.ts'
import { unresolved } from '../refusal.ts'
import { mustControl, type Actor } from '../rights/actor.ts'
import { claimsOf, type Reader } from '../rights/reader.ts'
import type { RegistryDatabase } from '../tables.ts'
import type { Write, Writing } from '../writing.ts'
import { unreviewed } from '../evaluation/tables.ts'
import { withClaimTables, type ClaimRow } from './tables.ts'

/** Claims to be opened: one about each of some twins, which somebody fills in later. */
export interface WantedOpen {
  /** What the claims are opened for: the same twin gets one claim for the same purpose, however often it is asked for. */
  readonly purpose: string
  readonly protocol: string
  readonly type: string
  readonly subjects: readonly string[]
}

/** What opening claims has done. */
export interface Opened {
  /** How many claims were opened now. */
  readonly opened: number
  /** The twins that are not active any more: nobody can claim anything about them. */
  readonly gone: readonly string[]
}

/** How many claims one transaction opens. */
const atOnce = 500

/** Claims that wait for their properties, such as the questions of a survey. */
export class OpenClaims {
  readonly #db: RegistryDatabase
  readonly #write: Write
  readonly #protocols: Pick<Protocols, 'newest'>

  constructor(db: RegistryDatabase, write: Write, protocols: Pick<Protocols, 'newest'>) {
    this.#db = db
    this.#write = write
    this.#protocols = protocols
  }

  /** Opens a claim about each of some twins, each once. The caller controls all of them, or nothing is opened. */
  async open(wanted: WantedOpen, actor: Actor): Promise<Opened> {
    const { protocol, subjects } = wanted
    const checker = await this.#protocols.newest(protocol, this.#db)
    if (!checker)
      throw unresolved('protocol', `there is no protocol ${protocol}`, 'Create it first.')
    for (let from = 0; from < subjects.length; from += atOnce)
      await activeAmong(subjects.slice(from, from + atOnce), actor, this.#db)
    let opened = 0
    const gone: string[] = []
    for (let from = 0; from < subjects.length; from += atOnce) {
      const some = subjects.slice(from, from + atOnce)
      await this.#write(actor, async (writing) => {
        const active = await activeAmong(some, actor, writing.db)
        gone.push(...some.filter((did) => !active.has(did)))
        opened += await insert({ ...wanted, subjects: [...active] }, checker.version, writing)
      })
    }
    return { opened, gone }
  }

  /** The open claims for a purpose, by the twins that they are about, as far as the reader sees them. */
  async about(
    { purpose, protocol, subjects }: Omit<WantedOpen, 'type'>,
    reader: Reader,
  ): Promise<ReadonlyMap<string, string>> {
    const found = new Map<string, string>()
    for (let from = 0; from < subjects.length; from += atOnce) {
      const ids = subjects
        .slice(from, from + atOnce)
        .map((subject) => idOf(purpose, protocol, subject))
      const rows = await withClaimTables(this.#db)
        .selectFrom('registry_claims')
        .select(['id', 'subject'])
        .where('id', 'in', ids)
        .where('status', '=', 'open')
        .where(claimsOf(reader))
        .execute()
      for (const { id, subject } of rows) found.set(subject, id)
    }
    return found
  }
}

/** The twins that are active; refuses a caller who does not control one of them. */
async function activeAmong(dids: readonly string[], actor: Actor, db: RegistryDatabase) {
  const rows = await db
    .selectFrom('registry_entities')
    .select(['did', 'controller'])
    .where('did', 'in', dids)
    .where('status', '=', 'active')
    .execute()
  for (const row of rows) mustControl(actor, row)
  return new Set(rows.map(({ did }) => did))
}

async function insert(
  { purpose, protocol, type, subjects }: WantedOpen,
  version: number,
  writing: Writing,
): Promise<number> {
  if (subjects.length === 0) return 0
  const tables = withClaimTables(writing.db)
  const ids = new Map(subjects.map((subject) => [idOf(purpose, protocol, subject), subject]))
  const present = await tables
    .selectFrom('registry_claims')
    .select('id')
    .where('id', 'in', [...ids.keys()])
    .execute()
  for (const { id } of present) ids.delete(id)
  const rows = Array.from(ids, ([id, subject]): ClaimRow => {
    const about = JSON.stringify({ subject })
    return {
      id,
      ordinal: writing.change({
        kind: 'claim',
        did: id,
        version: 1,
        type,
        action: 'opened',
        about,
      }),
      type,
      subject,
      // Until somebody submits it, the claim is nobody's but the twin's.
      submitter: subject,
      protocol,
      protocol_version: version,
      properties: '{}',
      evidence: null,
      status: 'open',
      oracle: null,
      evaluation: null,
      credential: null,
      created_at: writing.at,
      updated_at: writing.at,
      ...unreviewed,
    }
  })
  for (const row of rows) await tables.insertInto('registry_claims').values(row).execute()
  return rows.length
}

/** The id of an open claim follows from what it is for, so that a repeated request opens nothing twice. */
function idOf(purpose: string, protocol: string, subject: string): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([purpose, protocol, subject]))
    .digest('hex')
  // A UUID of version 8, which leaves its bits to whoever makes it (RFC 9562).
  return `${hash.slice(0, 8)}-${hash.slice(8, 12)}-8${hash.slice(13, 16)}-8${hash.slice(17, 20)}-${hash.slice(20, 32)}`
}
