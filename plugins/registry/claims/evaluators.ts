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
 * the API key answers for the assets that name none, with any oracle or in the name of this one, and registers the oracles
 * that others evaluate with: anybody can make up an asset and an oracle, and what is approved the runtime signs. Nobody
 * evaluates a claim of their own.
 */
export async function evaluatorOf(
  claim: Pick<ClaimRow, 'subject' | 'submitter'>,
  asked: string | undefined,
  actor: Actor,
  thisOracle: string,
  db: RegistryDatabase,
): Promise<string> {
  const isOperator = actor.did === undefined
  const named = await verifiersOf(claim.subject, db)
  const [only] = named.size === 1 ? named : named.size === 0 && isOperator ? [thisOracle] : []
  const did = asked ?? only
  if (did === undefined)
    throw new RuntimeError(
      'UNPROCESSABLE',
      `${claim.subject} names ${named.size === 0 ? 'no verifier' : 'several verifiers'}.`,
      { hint: 'Say which oracle evaluates.', details: [{ path: 'oracle', message: 'missing' }] },
    )
  // This oracle need not have a twin here.
  if (!isOperator || did !== thisOracle) await checkOracle(did, actor, db)
  if (named.size > 0 ? !named.has(did) : !isOperator)
    throw forbidden(
      `${claim.subject} does not name ${did} as its verifier.`,
      named.size > 0
        ? `It names ${[...named].join(', ')}.`
        : 'Its controller relates it, or its project, to the oracle in the role "verifier".',
    )
  const isOwn =
    did === claim.submitter ||
    (!isOperator &&
      (actor.did === claim.submitter || actor.did === (await read(claim.subject, db))?.controller))
  if (isOwn)
    throw forbidden(
      `${actor.did ?? did} cannot evaluate a claim of its own.`,
      'Ask another oracle.',
    )
  return did
}

async function checkOracle(did: string, actor: Actor, db: RegistryDatabase): Promise<void> {
  const oracle = await read(did, db)
  if (oracle?.status !== 'active')
    throw unresolved('oracle', `there is no active entity ${did}`, 'Register the oracle first.')
  if (oracle.class !== 'oracle-twin')
    throw forbidden(
      `${did} is not an oracle twin, so it evaluates nothing.`,
      'An oracle is of the type OracleEntity or of the class oracle-twin.',
    )
  mustControl(actor, oracle)
  if (actor.did !== undefined && !(await isRegisteredByKey(did, db)))
    throw forbidden(
      `${did} was not registered by the operator, so what it approves is not signed here.`,
      'Ask the operator to register the oracle with the API key.',
    )
}

const forbidden = (message: string, hint: string) =>
  new RuntimeError('FORBIDDEN', message, { hint })

const read = (did: string, db: RegistryDatabase) =>
  db
    .selectFrom('registry_entities')
    .select(['did', 'controller', 'status', 'class'])
    .where('did', '=', did)
    .executeTakeFirst()

async function isRegisteredByKey(did: string, db: RegistryDatabase): Promise<boolean> {
  const first = await db
    .selectFrom('registry_changes')
    .select('actor')
    .where('did', '=', did)
    .where('version', '=', 1)
    .where('kind', '=', 'entity')
    .executeTakeFirst()
  return first?.actor.startsWith('key:') === true
}

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
