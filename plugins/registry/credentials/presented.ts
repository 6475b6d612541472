import { giveWay, RuntimeError } from '#core'
import { overList } from '../bulk.ts'
import { withClaimTables, type CredentialRow } from '../claims/tables.ts'
import { controls } from '../rights/actor.ts'
import { marked, readDetails, unverified, type EmbeddedCredential } from '../entities/entity.ts'
import { conflicting } from '../refusal.ts'
import type { EntityRow, MintRow, RegistryDatabase } from '../tables.ts'
import type { Writing } from '../writing.ts'
import { canonicalJson, isLongerThan } from './canonical-json.ts'
import { carriesProof, whyNot, type Verifying } from './verify.ts'

/** How many credentials with a proof one entity presents at once; every check of a proof costs CPU time. */
const mostProven = 20
/** The longest credential, in characters of canonical JSON, because writing canonical JSON takes long. */
const longest = 65_536
const mostSubjects = 20

/** The credentials that an entity presents, after `vet` has checked every proof among them. */
export interface Vetted {
  /** The credentials as the registry stores them: one without a proof carries the mark `unverified`. */
  readonly entries: readonly EmbeddedCredential[]
  readonly proven: readonly Proven[]
}

/** A credential whose signature holds. In the transaction, `settle` checks that the credential is in force and about this entity. */
interface Proven {
  readonly path: string
  /** Whether the registry stored the credential before, and checked its proof then. */
  readonly isKept: boolean
  readonly text: string
  readonly entry: EmbeddedCredential
}

/** The entity that presents credentials, as the transaction is about to make it. */
export interface Presenting extends Pick<EntityRow, 'did' | 'controller'> {
  /** The ids of the entities to which the presenting entity has an edge. */
  readonly targets: ReadonlySet<string>
  /** Whether the protocol of the entity makes the entity a credit. */
  readonly mints: boolean
  /** Whether the entity became a credit before. */
  readonly wasMinted: boolean
}

/** The value for an entity that presents no credentials. */
export const none: Vetted = { entries: [], proven: [] }

/** Checks the credentials that entities present about themselves, and decides which of the credentials become credits. */
export class PresentedCredentials {
  readonly #oracle: Verifying
  readonly #issuedOf
  readonly #mintsOf
  readonly #controllersOf

  constructor(db: RegistryDatabase, oracle: Verifying) {
    this.#oracle = oracle
    this.#issuedOf = overList<CredentialRow>(db, (ids) =>
      withClaimTables(db).selectFrom('registry_credentials').selectAll().where('id', 'in', ids),
    )
    this.#mintsOf = overList<MintRow>(db, (ids) =>
      db.selectFrom('registry_mints').selectAll().where('credential', 'in', ids),
    )
    this.#controllersOf = overList<Pick<EntityRow, 'did' | 'controller'>>(db, (dids) =>
      db.selectFrom('registry_entities').select(['did', 'controller']).where('did', 'in', dids),
    )
  }

  /**
   * Checks the proofs before any transaction, because a resolver may answer slowly. A credential whose canonical text is in
   * `kept` was checked when the registry stored it, and is not checked again. Other requests run between two credentials.
   */
  async vet(
    given: readonly EmbeddedCredential[] = [],
    kept: ReadonlySet<string> = new Set(),
  ): Promise<Vetted> {
    if (given.length === 0) return none
    const entries: EmbeddedCredential[] = []
    const proven: Proven[] = []
    for (const [at, credential] of given.entries()) {
      await giveWay()
      const path = `verifiableCredential.${at}`
      if (!carriesProof(credential)) {
        entries.push(marked(credential))
        continue
      }
      const entry = unmarked(credential)
      // A stored credential passed this limit too, so a longer one cannot be among `kept` and needs no canonical text.
      const text = isLongerThan(longest, entry) ? undefined : canonicalJson(entry)
      if (text === undefined || text.length > longest)
        throw refused(path, `it is longer than ${longest} characters`)
      const isKept = kept.has(text)
      entries.push(entry)
      proven.push({ path, text, entry, isKept })
      if (isKept) continue
      if (proven.length > mostProven)
        throw refused(path, `an entity presents ${mostProven} credentials with a proof at once`)
      const reason = await whyNot(entry, this.#oracle, Date.now())
      if (reason !== undefined) throw refused(path, reason)
    }
    return { entries, proven }
  }

  /**
   * Refuses credentials that are about others or no longer in force, and returns the rows of those that become credits.
   * `minting` has the ids of the credentials that the same transaction has already made into credits.
   */
  async settle(
    vetted: Vetted,
    entity: Presenting,
    { db: trx, actor, at }: Writing,
    minting: ReadonlySet<string> = new Set(),
  ): Promise<MintRow[]> {
    const needsMint = entity.mints && !entity.wasMinted
    const proven = vetted.proven.filter(({ isKept }) => needsMint || !isKept)
    if (proven.length === 0) {
      if (needsMint) throw withoutClaim()
      return []
    }
    const issued = new Map(
      (
        await this.#issuedOf(
          proven.flatMap(({ entry }) => idOf(entry) ?? []),
          trx,
        )
      ).map((row) => [row.id, row]),
    )
    const subjects = new Map(proven.map((one) => [one, subjectsOf(one.entry)]))
    const controllers = new Map(
      (await this.#controllersOf([...new Set([...subjects.values()].flat())], trx)).map((row) => [
        row.did,
        row,
      ]),
    )

    function isAbout(subject: string): boolean {
      if (subject === entity.did) return true
      const row = controllers.get(subject)
      if (!row) return false
      // A credit stands for a claim about somebody's asset: only the controller of the asset may turn the claim into a credit.
      const isOwn = controls(actor, row) || row.controller === entity.controller
      return isOwn && (entity.mints || entity.targets.has(subject))
    }

    const mints = new Map<string, MintRow>()
    for (const one of proven) {
      await giveWay()
      const { path, entry, text } = one
      const about = subjects.get(one) ?? []
      if (about.length === 0 || !about.every(isAbout))
        throw refused(path, `it is about ${about.join(', ') || 'nobody'}, not about ${entity.did}`)
      const row = issued.get(idOf(entry) ?? '')
      const isOurs = row !== undefined && isSame(row.document, text)
      if (isOurs) {
        if (row.revoked_at !== null) throw refused(path, `it was revoked at ${row.revoked_at}`)
        if (entity.mints) mints.set(row.id, { credential: row.id, entity: entity.did, at })
      } else if (this.#isOracle(entry.issuer)) throw refused(path, 'it was not issued here')
      else if (entry.credentialStatus !== undefined)
        throw refused(path, 'its status list is elsewhere, and is not asked from here')
    }
    if (!entity.mints) return []
    const used = await this.#mintsOf([...mints.keys()], trx)
    const [before] = used.filter((one) => one.entity !== entity.did)
    const again = before?.credential ?? [...mints.keys()].find((id) => minting.has(id))
    if (again !== undefined)
      throw conflicting(
        `The credential urn:uuid:${again} became a credit already, and makes only one.`,
        'Present the credential of another approved claim.',
        { credential: again, ...(before && { entity: before.entity }) },
      )
    if (needsMint && mints.size === 0) throw withoutClaim()
    for (const { credential } of used) mints.delete(credential)
    return [...mints.values()]
  }

  #isOracle(did: string) {
    return did === this.#oracle.did || this.#oracle.aliases.includes(did)
  }
}

/** The credentials that an entity has already, for a change that presents no new ones. */
export function keptOf(row: Pick<EntityRow, 'details'>): Vetted {
  const { verifiableCredential: entries = [], checked } = readDetails(row)
  const proven = entries.flatMap((entry, at) =>
    checked && carriesProof(entry)
      ? {
          path: `verifiableCredential.${at}`,
          // A getter, because most changes never read the text.
          get text() {
            return canonicalJson(entry)
          },
          entry,
          isKept: true,
        }
      : [],
  )
  return { entries, proven }
}

/** The canonical texts of the stored credentials whose proofs the registry has checked. */
export async function textsOf(row: Pick<EntityRow, 'details'>): Promise<ReadonlySet<string>> {
  const { verifiableCredential = [], checked } = readDetails(row)
  const texts = new Set<string>()
  for (const entry of checked ? verifiableCredential.filter(carriesProof) : []) {
    await giveWay()
    texts.add(canonicalJson(entry))
  }
  return texts
}

/** Whether a stored document has this canonical text. Sorting keys changes no length, so most documents differ by length already. */
const isSame = (document: string, canonical: string): boolean =>
  document.length === canonical.length && canonicalJson(JSON.parse(document)) === canonical

/** Removes the registry's own mark, which a client sends along when it sends back a credential that it read. */
function unmarked(credential: EmbeddedCredential): EmbeddedCredential {
  if (credential.status !== unverified) return credential
  const { status: _, ...rest } = credential
  return rest
}

const idOf = ({ id }: EmbeddedCredential): string | undefined =>
  typeof id === 'string' && id.length <= 100 ? id.replace(/^urn:uuid:/, '') : undefined

/** The ids of a credential's subjects; empty where one of the subjects has no id. */
function subjectsOf({ credentialSubject }: EmbeddedCredential): readonly string[] {
  const list: readonly unknown[] = Array.isArray(credentialSubject)
    ? credentialSubject
    : [credentialSubject]
  if (list.length > mostSubjects) return []
  const ids = list.flatMap((one) =>
    typeof one === 'object' && one !== null && 'id' in one && typeof one.id === 'string'
      ? one.id
      : [],
  )
  return ids.length === list.length ? ids : []
}

const refused = (path: string, reason: string) =>
  new RuntimeError('UNPROCESSABLE', `"${path}" is not accepted: ${reason}.`, {
    hint: 'Present a credential whose proof, issuer, status and subject hold, or leave it out.',
    details: [{ path, message: reason }],
  })

const withoutClaim = () =>
  new RuntimeError(
    'UNPROCESSABLE',
    '"verifiableCredential" lacks the credential of an approved claim, which a credit is made of.',
    {
      hint: 'Present a credential that GET /v1/credentials lists, as it was signed.',
      details: [{ path: 'verifiableCredential', message: 'missing; a credit is made of one' }],
    },
  )
