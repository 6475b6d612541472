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

/** Credentials with a proof that one entity presents; each costs a signature to check. */
const mostProven = 20
/** The length of one of them in canonical JSON, which takes long to write out. */
const longest = 65_536
const mostSubjects = 20

/** What an entity presents, once every proof in it was checked. */
export interface Vetted {
  /** As they are stored: whoever came without a proof is marked. */
  readonly entries: readonly EmbeddedCredential[]
  readonly proven: readonly Proven[]
}

/** A credential whose signature holds. Whether it is about this entity, and still in force, is asked in the transaction. */
interface Proven {
  readonly path: string
  /** It was stored before, and checked then. */
  readonly isKept: boolean
  readonly text: string
  readonly entry: EmbeddedCredential
}

/** The entity that presents credentials, as the transaction is about to make it. */
export interface Presenting extends Pick<EntityRow, 'did' | 'controller'> {
  /** What it has an edge to. */
  readonly targets: ReadonlySet<string>
  /** Its protocol makes a credit of it. */
  readonly mints: boolean
  /** It became a credit before. */
  readonly wasMinted: boolean
}

/** What an entity presents that presents nothing. */
export const none: Vetted = { entries: [], proven: [] }

/** The credentials that entities present of themselves: who vouches for them, and what they become. */
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
   * Checks the proofs, before any transaction: a resolver may take its time. What is kept already, and was checked
   * then, is not checked again: `kept` has its canonical texts. Gives way to others between two credentials.
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
      // What was kept was no longer than this either, so nothing that is longer needs writing out.
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
   * Refuses what is foreign or no longer in force, and returns what becomes a credit by this. `minting` are the
   * credentials that the same transaction has used up already.
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
      // A credit stands for what was claimed of somebody's asset: only who controls that may turn it into one.
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
        `The credential urn:uuid:${again} became a credit already, and does so once.`,
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

/** What an entity presents already, where nothing new is presented. */
export function keptOf(row: Pick<EntityRow, 'details'>): Vetted {
  const { verifiableCredential: entries = [], checked } = readDetails(row)
  const proven = entries.flatMap((entry, at) =>
    checked && carriesProof(entry)
      ? {
          path: `verifiableCredential.${at}`,
          // Most changes never ask for it.
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

/** What was checked when it was stored, as canonical texts. */
export async function textsOf(row: Pick<EntityRow, 'details'>): Promise<ReadonlySet<string>> {
  const { verifiableCredential = [], checked } = readDetails(row)
  const texts = new Set<string>()
  for (const entry of checked ? verifiableCredential.filter(carriesProof) : []) {
    await giveWay()
    texts.add(canonicalJson(entry))
  }
  return texts
}

/** Whether a document, as it is kept, has this canonical text. Sorted keys change no length, so most need no reading. */
const isSame = (document: string, canonical: string): boolean =>
  document.length === canonical.length && canonicalJson(JSON.parse(document)) === canonical

/** Whoever sends back what they read sends the mark along, which is ours and no part of the credential. */
function unmarked(credential: EmbeddedCredential): EmbeddedCredential {
  if (credential.status !== unverified) return credential
  const { status: _, ...rest } = credential
  return rest
}

const idOf = ({ id }: EmbeddedCredential): string | undefined =>
  typeof id === 'string' && id.length <= 100 ? id.replace(/^urn:uuid:/, '') : undefined

/** Whom a credential is about; empty where it does not say so of each of its subjects. */
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
