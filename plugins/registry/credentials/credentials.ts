import { RuntimeError, type Oracle } from '#core'
import { mustControl, type Actor } from '../actor.ts'
import { pageOf } from '../claims/pages.ts'
import type { CredentialsQuery } from '../claims/request.ts'
import { withClaimTables, type ClaimsDatabase, type CredentialRow } from '../claims/tables.ts'
import { notFound } from '../refusal.ts'
import type { RegistryDatabase } from '../tables.ts'
import type { Write } from '../writing.ts'
import type { Credential } from './credential.ts'
import { statusList } from './status-list.ts'

export interface CredentialsParts {
  readonly db: RegistryDatabase
  readonly write: Write
  readonly oracle: Oracle
}

/** The credentials that approved claims became. */
export function credentials({ db: registry, write, oracle }: CredentialsParts) {
  const db = withClaimTables(registry)

  return {
    async read(id: string): Promise<Credential> {
      return documentOf(await rowOf(id, db))
    },

    /** Newest first. */
    list({ limit, cursor, status, ...wanted }: CredentialsQuery) {
      let query = db.selectFrom('registry_credentials').selectAll()
      for (const [column, value] of Object.entries(wanted) as [keyof typeof wanted, string][])
        if (value !== undefined) query = query.where(column, '=', value)
      if (status !== undefined)
        query = query.where('revoked_at', status === 'valid' ? 'is' : 'is not', null)
      return pageOf(query, limit, cursor, documentOf)
    },

    /** The oracle that approved a claim takes it back. The credential stays as it is; its bit in the list says so. */
    revoke(id: string, reason: string | undefined, actor: Actor) {
      return write(actor, async (writing) => {
        const tables = withClaimTables(writing.db)
        const row = await rowOf(id, tables)
        const evaluator = await writing.db
          .selectFrom('registry_entities')
          .select(['did', 'controller'])
          .where('did', '=', row.oracle)
          .executeTakeFirst()
        if (evaluator) mustControl(actor, evaluator)
        else if (actor.did !== undefined)
          throw new RuntimeError('FORBIDDEN', `${actor.did} does not control ${row.oracle}.`)
        if (row.revoked_at !== null) return revocationOf(row) // once is enough, and the first reason stands
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
    },

    statusList: (list: number) => statusList(db, oracle, list),
  }
}
export type Credentials = ReturnType<typeof credentials>

async function rowOf(id: string, db: ClaimsDatabase): Promise<CredentialRow> {
  const row = await db
    .selectFrom('registry_credentials')
    .selectAll()
    .where('id', '=', id.replace(/^urn:uuid:/, ''))
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
