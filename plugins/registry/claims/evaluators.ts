import { RuntimeError } from '#core'
import { mustControl, type Actor } from '../actor.ts'
import { unresolved } from '../refusal.ts'
import type { RegistryDatabase } from '../tables.ts'
import type { ClaimRow } from './tables.ts'

/** The role of the edge from an asset, or from what holds it, to the oracle that evaluates its claims. */
const verifier = 'verifier'

/**
 * Who evaluates a claim: an oracle twin, in the hands of whoever controls it. The asset says which, by an edge in the role
 * `verifier` from itself or from an entity that points to it and has the same controller, such as its project. The holder of
 * the API key answers for the assets that name none. Nobody evaluates a claim of their own.
 */
export async function evaluatorOf(
  claim: Pick<ClaimRow, 'subject' | 'submitter'>,
  asked: string | undefined,
  actor: Actor,
  db: RegistryDatabase,
): Promise<string> {
  const named = await verifiersOf(claim.subject, db)
  const did = asked ?? (named.size === 1 ? [...named][0]! : undefined)
  if (did === undefined)
    throw unresolved(
      'oracle',
      `${claim.subject} has ${named.size || 'no'} verifiers`,
      'Say which oracle evaluates.',
    )
  const oracle = await read(did, db)
  if (oracle?.status !== 'active')
    throw unresolved('oracle', `there is no active entity ${did}`, 'Register the oracle first.')
  if (oracle.class !== 'oracle-twin')
    throw forbidden(
      `${did} is not an oracle twin, so it evaluates nothing.`,
      'An oracle is of the type OracleEntity or of the class oracle-twin.',
    )
  mustControl(actor, oracle)
  if (named.size > 0 ? !named.has(did) : actor.did !== undefined)
    throw forbidden(
      `${claim.subject} does not name ${did} as its verifier.`,
      named.size > 0
        ? `It names ${[...named].join(', ')}.`
        : 'Its controller relates it, or its project, to the oracle in the role "verifier".',
    )
  const subject = await read(claim.subject, db)
  const own = [claim.submitter, actor.did === undefined ? undefined : subject?.controller]
  if (own.includes(did) || (actor.did !== undefined && own.includes(actor.did)))
    throw forbidden(
      `${actor.did ?? did} cannot evaluate a claim of its own.`,
      'Ask another oracle.',
    )
  return did
}

const forbidden = (message: string, hint: string) =>
  new RuntimeError('FORBIDDEN', message, { hint })

const read = (did: string, db: RegistryDatabase) =>
  db
    .selectFrom('registry_entities')
    .select(['did', 'controller', 'status', 'class'])
    .where('did', '=', did)
    .executeTakeFirst()

async function verifiersOf(subject: string, db: RegistryDatabase): Promise<Set<string>> {
  const rows = await db
    .selectFrom('registry_edges as edge')
    .innerJoin('registry_entities as source', 'source.did', 'edge.source')
    .select('edge.target')
    .distinct()
    .where('edge.role', '=', verifier)
    .where((where) =>
      where.or([
        where('edge.source', '=', subject),
        // Anybody may point to the asset; only who controls it too speaks for it.
        where.and([
          where(
            'edge.source',
            'in',
            where
              .selectFrom('registry_edges as above')
              .select('above.source')
              .where('above.target', '=', subject),
          ),
          where(
            'source.controller',
            'in',
            where
              .selectFrom('registry_entities as asset')
              .select('asset.controller')
              .where('asset.did', '=', subject),
          ),
        ]),
      ]),
    )
    .execute()
  return new Set(rows.map(({ target }) => target))
}
