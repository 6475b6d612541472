import type { Auth, AuthOptions } from './authenticate.ts'

/** The authentication, loaded when the first credential comes: what verifies tokens is heavy to import. */
export interface LazyAuth extends Omit<Auth, 'stats'> {
  /** Loads it now, so that the first caller does not wait. */
  warm(): Promise<void>
}

/** An authentication that loads its code with its first use. */
export function lazyAuth(options: AuthOptions): LazyAuth {
  let made: Auth | undefined
  let making: Promise<Auth> | undefined
  const load = () =>
    (making ??= import('./authenticate.ts').then(({ Auth }) => (made = new Auth(options))))
  return {
    authenticate: (request) =>
      made ? made.authenticate(request) : load().then((auth) => auth.authenticate(request)),
    withDelegation: (user) =>
      made ? made.withDelegation(user) : load().then((auth) => auth.withDelegation(user)),
    verifyDelegation: async (raw, expected) =>
      (made ?? (await load())).verifyDelegation(raw, expected),
    restore: async (did) => (made ?? (await load())).restore(did),
    warm: async () => void (await load()),
  }
}
