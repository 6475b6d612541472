import { Auth, type AuthOptions, type AuthRequest } from '../../core/runtime/auth/authenticate.ts'
import { Resolver } from '../../core/runtime/auth/did/resolver.ts'
import { signerFromMnemonic } from '../../core/runtime/auth/did/signer.ts'
import type { Fetch, Log } from '../../core/plugin.ts'
import type { TokenHeaders } from './tokens.ts'

/** A log that keeps its lines, each as one text, to be looked at afterwards. */
export function capturingLog() {
  const lines: string[] = []
  const keep = (level: string) => (fields: object | string, message?: string) =>
    void lines.push(JSON.stringify([level, fields, message]))
  const log: Log = {
    debug: keep('debug'),
    info: keep('info'),
    warn: keep('warn'),
    error: keep('error'),
  }
  return { log, lines }
}

/** The mnemonic of the oracle in tests of authentication. */
export const oracleMnemonic =
  'wink bench purity lawn glide fabric echo motor crisp verb anchor slab'
/** The signer of that oracle. */
export const oracle = signerFromMnemonic(oracleMnemonic)

/** A network that nothing answers on. */
export const noNetwork: Fetch = () => Promise.reject(new Error('the test has no network'))

/** Authentication as the runtime sets it up, with a log to look at. */
export function testAuth(options: Partial<AuthOptions> = {}) {
  const { log, lines } = capturingLog()
  const auth = new Auth({
    signer: oracle,
    oracleDid: oracle.did,
    maxTtlSeconds: 900,
    delegationOnly: true,
    resolver: new Resolver({ fetch: noNetwork }),
    revocations: { isRevoked: () => false },
    log,
    ...options,
  })
  return { auth, lines }
}

/** The request that these headers come with. */
export function requestOf(headers: TokenHeaders, rest: Partial<AuthRequest> = {}): AuthRequest {
  return {
    authorization: headers.authorization,
    authType: headers['x-auth-type'],
    delegation: headers['x-ucan-delegation'],
    method: 'GET',
    path: '/user-preferences',
    ...rest,
  }
}
