import { sql } from 'kysely'
import { RuntimeError } from '#core'
import { mustControl, type Actor } from '../rights/actor.ts'
import { unresolved } from '../refusal.ts'
import type { RegistryDatabase } from '../tables.ts'
import type { ClaimRow } from './tables.ts'

/** The role of the edge from an asset to the oracle that evaluates its claims. */
const verifier = 'verifier'
/** The role of an edge from the oracle to the asset. The edge counts once the controller of the asset has confirmed it. */
const verifies = 'verifies'
/** The name that the runtime gives to an API key which the operator configured without a name. */
const unnamed = 'key:default'

/**
 * Returns the DID of the oracle that evaluates a claim, or refuses the caller. The asset names its oracle by an edge that
 * the controller of the asset or the operator drew or confirmed; the controller of that oracle twin evaluates. For an
 * asset that names no oracle, only the holder of an API key evaluates, with any oracle twin or as this oracle. Callers
 * with a DID evaluate only with oracle twins that the operator registered: the runtime signs what they approve, and
 * anybody can create an asset and an oracle.
 */
export async function evaluatorOf(
  claim: Pick<ClaimRow, 'id' | 'subject' | 'submitter'>,
  asked: string | undefined,
  actor: Actor,
  thisOracle: string,
  db: RegistryDatabase,
): Promise<string> {
  const hasKey = actor.did === undefined
  const named = await verifiersOf(claim.subject, db)
  const [only] = named.size === 1 ? named : named.size === 0 && hasKey ? [thisOracle] : []
  const did = asked ?? only
  if (did === undefined)
    throw new RuntimeError(
      'UNPROCESSABLE',
      `${claim.subject} names ${named.size === 0 ? 'no verifier' : 'several verifiers'}.`,
      { hint: 'Say which oracle evaluates.', details: [{ path: 'oracle', message: 'missing' }] },
    )
  // The runtime's own oracle needs no twin in the registry.
  const oracle = hasKey && did === thisOracle ? undefined : await oracleTwin(did, actor, db)
  if (named.size > 0 ? !named.has(did) : !hasKey)
    throw forbidden(
      `${claim.subject} does not name ${did} as its verifier.`,
      named.size > 0
        ? `It names ${[...named].join(', ')}.`
        : 'Its controller relates it to the oracle in the role "verifier", or confirms that edge.',
    )
  await mustBeAnother(claim, did, hasKey ? undefined : oracle?.controller, actor, thisOracle, db)
  return did
}

/**
 * The four-eyes rule: the party that made a claim, or that controls the asset of the claim, does not evaluate the claim,
 * neither directly nor through an oracle twin that it controls. The name of an API key stands for a person, so a key
 * without a name could be in anybody's hands and evaluates no claims.
 */
async function mustBeAnother(
  { id, subject, submitter }: Pick<ClaimRow, 'id' | 'subject' | 'submitter'>,
  oracle: string,
  /** Who controls the oracle twin; undefined where the holder of an API key gives the verdict. */
  controller: string | undefined,
  actor: Actor,
  thisOracle: string,
  db: RegistryDatabase,
): Promise<void> {
  const asset = await read(subject, db)
  const submitting = await read(submitter, db)
  const maker = await makerOf(id, db)
  // The operator's own DID does not count as a party: holders of API keys act for the operator, and their names decide.
  const parties = [asset?.controller, submitter, submitting?.controller, maker, subject]
  const theirs = new Set(parties.filter((party) => party !== undefined && party !== thisOracle))
  const hands = [actor.name, oracle === thisOracle ? undefined : oracle, controller]
  if (hands.some((hand) => hand !== undefined && theirs.has(hand)))
    throw forbidden(
      `${actor.did ?? (theirs.has(oracle) ? oracle : actor.name)} cannot evaluate a claim of its own.`,
      'Whoever made a claim or controls its asset does not evaluate it: ask another oracle, or another person.',
    )
  if (actor.name === unnamed)
    throw forbidden(
      'A key without a name evaluates no claims, because the person who made the claims may hold the key.',
      'Give every person a key of their own (API_KEY=name:value,other:value), or evaluate under a DID.',
    )
}

async function oracleTwin(did: string, actor: Actor, db: RegistryDatabase) {
  const oracle = await read(did, db)
  if (oracle?.status !== 'active')
    throw unresolved('oracle', `there is no active entity ${did}`, 'Register the oracle first.')
  if (oracle.class !== 'oracle-twin')
    throw forbidden(
      `${did} is not an oracle twin, so it evaluates nothing.`,
      'An oracle is of the type OracleEntity or of the class oracle-twin.',
    )
  mustControl(actor, oracle)
  if (actor.did !== undefined && !(await makerOf(did, db))?.startsWith('key:'))
    throw forbidden(
      `${did} was not registered by the operator, so what it approves is not signed here.`,
      'Ask the operator to register the oracle with the API key.',
    )
  return oracle
}

const forbidden = (message: string, hint: string) =>
  new RuntimeError('FORBIDDEN', message, { hint })

const read = (did: string, db: RegistryDatabase) =>
  db
    .selectFrom('registry_entities')
    .select(['did', 'controller', 'status', 'class'])
    .where('did', '=', did)
    .executeTakeFirst()

/** Who made an entity or submitted a claim: a DID, or the name of a key. Whoever opened a claim has only asked. */
async function makerOf(id: string, db: RegistryDatabase): Promise<string | undefined> {
  const first = await db
    .selectFrom('registry_changes')
    .select('actor')
    .where('did', '=', id)
    .where('action', 'in', ['created', 'submitted'])
    .where('kind', 'in', ['entity', 'claim'])
    .orderBy('version')
    .executeTakeFirst()
  return first?.actor
}

/** The oracles that an asset names, by edges that the present controller of the asset or the operator drew or confirmed. */
async function verifiersOf(subject: string, db: RegistryDatabase): Promise<Set<string>> {
  const edges = (end: 'source' | 'target', other: 'source' | 'target', role: string) =>
    db
      .selectFrom('registry_edges as edge')
      .innerJoin('registry_entities as asset', 'asset.did', `edge.${end}`)
      .select(`edge.${other} as oracle`)
      .where(`edge.${end}`, '=', subject)
      .where('edge.role', '=', role)
      .where(
        sql<boolean>`(edge.by_operator = 1 or edge.drawn_by = asset.controller or edge.confirmed_by = asset.controller)`,
      )
  const rows = await edges('source', 'target', verifier)
    .union(edges('target', 'source', verifies))
    .execute()
  return new Set(rows.map(({ oracle }) => oracle))
}
