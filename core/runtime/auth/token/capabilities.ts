import type * as API from '@ucanto/interface'
import { capability, Schema } from '@ucanto/validator'
import { covers } from '../../../manifest/abilities.ts'
import type { Link } from './token.ts'

/** The oracle as a resource: rights on its DID start at its key, which has another DID where the oracle's is registered. */
export interface OracleDids {
  readonly did: string
  readonly keyDid: string | undefined
}

/**
 * How many grants one question may look at. Wildcards in the resources of a long chain multiply the
 * ways through it; an honest delegation is answered in a handful of looks.
 */
const mostLooks = 256

/** Whether a verified delegation grants `ability` on `resource`. */
export function grants(
  delegation: Link,
  ability: string,
  resource: string,
  oracle?: OracleDids,
): boolean {
  return ask(delegation, ability, resource, oracle) === 'granted'
}

/** Why a delegation does not grant the ability: one sentence for each grant looked at. Empty when the delegation does. */
export function denials(
  delegation: Link,
  ability: string,
  resource: string,
  oracle?: OracleDids,
): readonly string[] {
  const answer = ask(delegation, ability, resource, oracle)
  return answer === 'granted' ? [] : answer
}

/**
 * Asks with ucanto's own matching: `*` and `notes/*` cover abilities, `ucan:*` and a trailing `*`
 * cover resources, and in the end an issuer must own the resource (it is his DID) or hold a proof
 * that leads to its owner. On the oracle's own DID its key owns too, and a verb includes the lesser ones.
 *
 * ucanto's `access` would verify the signatures again on every path and try every path there is: a
 * token of 4 kB cost it 140 ms. Here each grant is asked once, and the same token costs 0.6 ms.
 */
function ask(
  delegation: Link,
  ability: string,
  resource: string,
  oracle: OracleDids | undefined,
): 'granted' | readonly [string, ...string[]] {
  const normal = URL.parse(resource)?.href
  if (normal !== resource)
    return [`"${resource}" is not ${normal ? `normalised; that is "${normal}"` : 'a URI'}.`]
  const asked = capability({
    can: ability as API.Ability, // a plain string is what plugins write; ucanto's type wants the slash
    with: Schema.URI.uri(),
  }).match({
    capability: grantOf({ can: ability, with: resource }),
    delegation: delegation.delegation,
  })
  const nothing = `Nothing grants "${ability}" on ${resource}.`
  if (asked.error) return [nothing]
  const walk: Walk = {
    causes: [],
    seen: new Set(),
    looks: 0,
    oracle: resource === oracle?.did ? oracle : undefined,
  }
  if (search(asked.ok, [delegation], walk)) return 'granted'
  const [first = nothing, ...others] = walk.causes
  return [first, ...others]
}

/** Whether a grant is restricted in a way that only its own schema could check. */
export function hasCaveats({ nb }: API.Capability): boolean {
  return nb !== undefined && (typeof nb !== 'object' || nb === null || Object.keys(nb).length > 0)
}

interface Walk {
  readonly causes: string[]
  readonly seen: Set<string>
  looks: number
  /** There when the question is about the oracle's DID. */
  readonly oracle: OracleDids | undefined
}
type Asked = API.DirectMatch<API.ParsedCapability>

function search(asked: Asked, holders: readonly Link[], walk: Walk): boolean {
  for (const holder of holders)
    for (const [place, grant] of holder.ucan.capabilities.entries()) {
      const look = `${holder.cid} ${place} ${asked.value.with}`
      if (walk.seen.has(look)) continue
      walk.seen.add(look)
      if (++walk.looks > mostLooks) {
        walk.causes.push(`The delegation has more than ${mostLooks} grants to look at.`)
        return false
      }
      if (leadsToOwner(asked, holder, grant, walk)) return true
    }
  return false
}

function leadsToOwner(asked: Asked, holder: Link, grant: API.Capability, walk: Walk): boolean {
  const the = `The grant of "${grant.can}" on ${grant.with}`
  if (hasCaveats(grant)) {
    walk.causes.push(`${the} carries caveats, which cannot be checked here.`)
    return false
  }
  const { can } = asked.value
  const included = walk.oracle !== undefined && covers(grant.can, can)
  const { matches, unknown } = asked.select([
    {
      capability: grantOf(included ? { can, with: grant.with } : grant),
      delegation: holder.delegation,
    },
  ])
  const [matched] = matches
  if (!matched) {
    const { with: resource } = asked.value
    walk.causes.push(
      unknown.length > 0 ? `${the} does not cover "${can}".` : `${the} is not about ${resource}.`,
    )
    return false
  }
  if (matched.value.with === holder.issuer) return true
  if (matched.value.with === walk.oracle?.did && holder.issuer === walk.oracle.keyDid) return true
  if (holder.proofs.length > 0) return search(matched, holder.proofs, walk)
  walk.causes.push(
    `${the} comes from ${holder.issuer}, who does not own ${matched.value.with} and holds no proof.`,
  )
  return false
}

/** The part of a grant that ucanto's matchers read, in the type that they read it by. */
function grantOf({ can, with: resource }: { can: string; with: string }) {
  return { can, with: resource } as API.Source['capability']
}
