import { RuntimeError, type Oracle } from '#core'
import type { Actor } from '../rights/actor.ts'
import { pageOf } from '../claims/pages.ts'
import type { CredentialsQuery } from '../claims/request.ts'
import { withClaimTables, type ClaimsDatabase, type CredentialRow } from '../claims/tables.ts'
import { notFound } from '../refusal.ts'
import { credentialsOf, everything, type Reader } from '../rights/reader.ts'
import type { RegistryDatabase } from '../tables.ts'
import type { Write } from '../writing.ts'
import type { Credential } from './credential.ts'
import { statusList } from './status-list.ts'

/** What `Credentials` needs to read and revoke credentials. */
export interface CredentialsParts {
  readonly db: RegistryDatabase
  readonly write: Write
  readonly oracle: Oracle
}

/** The credentials that approved claims became. */
export class Credentials {
  readonly #db: ClaimsDatabase
  readonly #write: Write
  readonly #oracle: Oracle

  constructor({ db, write, oracle }: CredentialsParts) {
    this.#db = withClaimTables(db)
    this.#write = write
    this.#oracle = oracle
  }

  /** A credential as the oracle signed it. */
  async read(id: string, reader: Reader): Promise<Credential> {
    return documentOf(await rowOf(id, this.#db, reader))
  }

  /** A page of credentials, newest first. */
  list({ limit, cursor, status, ...wanted }: CredentialsQuery, reader: Reader) {
    let query = this.#db.selectFrom('registry_credentials').selectAll().where(credentialsOf(reader))
    for (const [column, value] of Object.entries(wanted) as [keyof typeof wanted, string][])
      if (value !== undefined) query = query.where(column, '=', value)
    if (status !== undefined)
      query = query.where('revoked_at', status === 'valid' ? 'is' : 'is not', null)
    return pageOf(query, limit, cursor, documentOf)
  }

  /**
   * Revokes a credential: its document stays as it is, and its bit in the status list is set. The issuer is the key of this
   * oracle, so only the operator revokes, and neither the oracle that evaluated nor an entity with the DID of the key does.
   */
  revoke(id: string, reason: string | undefined, actor: Actor) {
    if (!actor.isOperator)
      throw new RuntimeError('FORBIDDEN', `${actor.did} is not the issuer of ${id}.`, {
        hint: 'Ask the operator, whose key signs the credentials, or for a grant of registry/admin.',
        details: { causes: ['Credentials are revoked with an API key or registry/admin.'] },
      })
    return this.#write(actor, async (writing) => {
      const tables = withClaimTables(writing.db)
      const row = await rowOf(id, tables)
      if (row.revoked_at !== null) return revocationOf(row) // a second revocation changes nothing: the first reason stays
      writing.change({
        kind: 'credential',
        did: row.id,
        version: 2,
        type: 'VerifiableCredential',
        action: 'revoked',
        about: JSON.stringify({ subject: row.subject, claim: row.claim }),
      })
      const revoked = { revoked_at: writing.at, reason: reason ?? null }
      await tables
        .updateTable('registry_credentials')
        .set(revoked)
        .where('id', '=', row.id)
        .execute()
      return revocationOf({ ...row, ...revoked })
    })
  }

  /** The signed list that says which credentials were revoked. */
  statusList(list: number) {
    return statusList(this.#db, this.#oracle, list)
  }
}

async function rowOf(id: string, db: ClaimsDatabase, reader = everything): Promise<CredentialRow> {
  const row = await db
    .selectFrom('registry_credentials')
    .selectAll()
    .where('id', '=', id.replace(/^urn:uuid:/, ''))
    .where(credentialsOf(reader))
    .executeTakeFirst()
  if (row) return row
  throw notFound('credential', id)
}

const documentOf = ({ document }: CredentialRow): Credential => JSON.parse(document)

const revocationOf = ({ id, revoked_at, reason }: CredentialRow) => ({
  id: `urn:uuid:${id}`,
  status: 'revoked' as const,
  revokedAt: revoked_at,
  ...(reason !== null && { reason }),
})
