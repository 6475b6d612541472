import { RuntimeError } from '../../errors.ts'
import {
  allowedHostForms,
  readAllowedHosts,
  type AllowedHost,
} from '../../manifest/allowed-hosts.ts'
import { type EnvSource, isForAuthors } from '../../manifest/env.ts'

/** What an environment says about addresses that others choose and the server calls. */
export interface OutboundRules {
  /** Whether this machine and plain http are allowed, as in development and test. */
  readonly isForAuthors: boolean
  /** The hosts of OUTBOUND_ALLOW. */
  readonly allowed: readonly AllowedHost[]
  /** This machine is refused for authors too, save for a host of `allowed`. */
  readonly refusesOwnMachine?: true
}

const ofApps = new Set<OutboundRules>()

/** Puts the rules of an app in force, for the whole process. Returns what ends them. */
export function enforceRules(rules: OutboundRules): () => void {
  const own = { ...rules }
  ofApps.add(own)
  return () => void ofApps.delete(own)
}

/**
 * The rules in force: those of every app that runs in this process, and an address has to pass all of them. Where no app
 * runs, the variables of the process make the rules.
 */
export function rulesInForce(): readonly OutboundRules[] {
  return ofApps.size > 0 ? [...ofApps] : [rulesOf(process.env)]
}

/** The rules that NODE_ENV and OUTBOUND_ALLOW make. */
export function rulesOf(env: EnvSource): OutboundRules {
  const text = env.OUTBOUND_ALLOW ?? ''
  const allowed = readAllowedHosts(text)
  if (!allowed)
    throw new RuntimeError(
      'ENV_INVALID',
      `OUTBOUND_ALLOW is "${text}", which cannot be used: it holds ${allowedHostForms}.`,
      { hint: 'Correct OUTBOUND_ALLOW or unset it.' },
    )
  return { isForAuthors: isForAuthors(env), allowed }
}
