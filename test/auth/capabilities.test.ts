import { describe, expect, test } from 'vitest'
import { invoke } from '@ucanto/core'
import type * as API from '@ucanto/interface'
import { access, capability, Schema } from '@ucanto/validator'
import { denials, grants } from '../../core/runtime/auth/token/capabilities.ts'
import { principal } from '../../core/runtime/auth/did/ed25519.ts'
import { readToken } from '../../core/runtime/auth/token/token.ts'
import {
  createWallet,
  type Permission,
  type Minted,
  type Wallet,
} from '../../core/testing/wallet.ts'
import { fan } from '../support/tokens.ts'

const oracle = await createWallet()
const user = await createWallet()
const owner = await createWallet()

const linkOf = ({ text }: Minted) => readToken(text, { blocks: 0, signatures: 0 }).root
const granting = async (...capabilities: (Permission & { nb?: object })[]) =>
  linkOf(await user.delegate({ audience: oracle.did, capabilities }))

describe('what a delegation grants', () => {
  test.each([
    ['registry/write', 'registry/write', true],
    ['registry/*', 'registry/write', true],
    ['*', 'registry/write', true],
    ['registry/read', 'registry/write', false],
    ['registry/*', 'registry/*', true],
    ['registry/write', 'registry/*', false],
    ['regis/*', 'registry/write', false],
    ['registry/write/all', 'registry/write', false],
  ])('%s covers %s: %s', async (granted, asked, expected) => {
    const delegation = await granting({ can: granted, with: user.did })
    expect(grants(delegation, asked, user.did)).toBe(expected)
  })

  test('is about the resources it names', async () => {
    const delegation = await granting({ can: 'registry/*', with: user.did })
    expect(grants(delegation, 'registry/write', owner.did)).toBe(false)
    expect(grants(delegation, 'registry/write', `${user.did}/notes`)).toBe(false)
    const everything = await granting({ can: '*', with: 'ucan:*' })
    expect(grants(everything, 'registry/write', user.did)).toBe(true)
    expect(grants(everything, 'registry/write', owner.did)).toBe(false)
  })

  test('is nothing that its issuer does not own', async () => {
    const delegation = await granting({ can: 'registry/write', with: owner.did })
    expect(denials(delegation, 'registry/write', owner.did)).toEqual([
      `The grant of "registry/write" on ${owner.did} comes from ${user.did}, who does not own ${owner.did} and holds no proof.`,
    ])
  })

  test('is what its owner has handed to the issuer', async () => {
    const share = async (ability: string) => {
      const proof = await owner.delegate({
        audience: user.did,
        capabilities: [{ can: ability, with: owner.did }],
      })
      const capabilities = [{ can: 'registry/*', with: owner.did }]
      return linkOf(await user.delegate({ audience: oracle.did, capabilities, proofs: [proof] }))
    }
    expect(grants(await share('registry/write'), 'registry/write', owner.did)).toBe(true)
    expect(grants(await share('registry/*'), 'registry/write', owner.did)).toBe(true)
    expect(denials(await share('registry/read'), 'registry/write', owner.did)).toEqual([
      `The grant of "registry/read" on ${owner.did} does not cover "registry/write".`,
    ])
  })

  test('is calling and nothing else, for the identity capability', async () => {
    const delegation = await granting({ can: '*', with: 'ixo:oracle' })
    expect(denials(delegation, 'registry/write', user.did)).toEqual([
      `The grant of "*" on ixo:oracle is not about ${user.did}.`,
    ])
    expect(grants(delegation, 'registry/write', 'ixo:oracle')).toBe(false)
  })

  test('does not count where it carries caveats that nobody here can check', async () => {
    const delegation = await granting({
      can: 'registry/write',
      with: user.did,
      nb: { only: 'this' },
    })
    expect(denials(delegation, 'registry/write', user.did)).toEqual([
      `The grant of "registry/write" on ${user.did} carries caveats, which cannot be checked here.`,
    ])
    const empty = await granting({ can: 'registry/write', with: user.did, nb: {} })
    expect(grants(empty, 'registry/write', user.did)).toBe(true)
  })

  test('is refused with one sentence for each grant that was looked at', async () => {
    const delegation = await granting(
      { can: 'registry/read', with: user.did },
      { can: 'registry/write', with: owner.did },
    )
    expect(denials(delegation, 'registry/write', user.did)).toEqual([
      `The grant of "registry/read" on ${user.did} does not cover "registry/write".`,
      `The grant of "registry/write" on ${owner.did} is not about ${user.did}.`,
    ])
  })

  test('is asked about resources in their normal form only', async () => {
    const delegation = await granting({ can: '*', with: 'ucan:*' })
    expect(denials(delegation, 'registry/write', 'not a uri')).toEqual([
      '"not a uri" is not a URI.',
    ])
    expect(denials(delegation, 'registry/write', 'https://a.example/b/../c')).toEqual([
      '"https://a.example/b/../c" is not normalised; that is "https://a.example/c".',
    ])
  })

  test('is found in bounded time in a DAG that was made to be searched for ever', async () => {
    const hostile = linkOf(await fan(oracle.did, { levels: 4, width: 2, grants: 8 }))
    const [asked] = hostile.ucan.capabilities
    const causes = denials(hostile, 'oracle/call', asked!.with)
    // Two blocks of eight grants on each of three levels, and the invocation's own.
    expect(causes.length).toBeGreaterThan(0)
    expect(causes.length).toBeLessThanOrEqual(49)
  })
})

describe('beside ucanto’s own validator', () => {
  test('every chain of a few hundred random ones is judged alike', async () => {
    const random = seeded(20_260_725)
    const pick = <T>(from: readonly T[]) => from[Math.floor(random() * from.length)]!
    const keys = await Promise.all(['a', 'b', 'c'].map((words) => createWallet(words)))
    const abilities = ['*', '*', 'registry/*', 'registry/write', 'registry/read', 'notes/*']
    const resources = [...keys.map((key) => key.did), 'ucan:*', `${keys[0]!.did.slice(0, 30)}*`]
    const grant = (): Permission => ({ can: pick(abilities), with: pick(resources) })

    async function delegation(issuer: Wallet, audience: string, depth: number): Promise<Minted> {
      const proofs = await Promise.all(
        Array.from({ length: depth > 0 ? Math.floor(random() * 3) : 0 }, () =>
          delegation(pick(keys), issuer.did, depth - 1),
        ),
      )
      const capabilities = Array.from({ length: 1 + Math.floor(random() * 2) }, grant)
      return issuer.delegate({ audience, capabilities, proofs, nonce: `${random()}` })
    }

    let granted = 0
    let refused = 0
    for (let round = 0; round < 300; round++) {
      const made = await delegation(pick(keys), oracle.did, 2)
      const ability = pick(['registry/write', 'registry/read', 'notes/add'])
      const resource = pick(keys).did
      const ours = grants(linkOf(made), ability, resource)
      const theirs = await ucantoGrants(made, ability, resource)
      expect(ours, `${made.text} ${ability} ${resource}`).toBe(theirs)
      if (ours) granted++
      else refused++
    }
    // Both answers occur often, or the comparison would say little.
    expect(granted).toBeGreaterThan(30)
    expect(refused).toBeGreaterThan(30)
  })
})

/** The same question to ucanto: may whoever the delegation is for invoke this? */
async function ucantoGrants({ delegation }: Minted, can: string, resource: string) {
  const invocation = await invoke({
    issuer: oracle.signer,
    audience: oracle.signer,
    capability: { can, with: resource } as API.Capability,
    proofs: [delegation],
  }).delegate()
  // ucanto's types tie an invocation to the capability it was declared with; here both vary.
  const result = await access(invocation as never, {
    capability: capability({ can: can as API.Ability, with: Schema.URI.uri() }),
    principal,
    authority: principal.parse(oracle.did),
    validateAuthorization: () => ({ ok: {} }),
  })
  return result.ok !== undefined
}

/** A small generator of the same numbers every time (mulberry32). */
function seeded(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}
