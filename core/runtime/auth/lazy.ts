import { importInPieces } from '../idle/import-in-pieces.ts'
import type { Auth, AuthOptions } from './authenticate.ts'

/** What verifying a token imports: our own files where they are files, and ucanto. */
const files = ['./authenticate.ts', '@ucanto/core', '@ucanto/validator']

/** An authentication that loads its code with its first use: what verifies tokens is heavy to import. */
export class LazyAuth implements Omit<Auth, 'stats' | 'practise'> {
  readonly #options: AuthOptions
  #made: Auth | undefined
  #making: Promise<Auth> | undefined

  constructor(options: AuthOptions) {
    this.#options = options
  }

  /** Proves who calls, as `Auth` does. */
  authenticate(request: Parameters<Auth['authenticate']>[0]) {
    if (this.#made) return this.#made.authenticate(request)
    return this.#load().then((auth) => auth.authenticate(request))
  }

  /** The user whom the same headers proved a moment ago, as `Auth` knows it; nobody before its first use. */
  familiar(headers: Parameters<Auth['familiar']>[0]) {
    return this.#made?.familiar(headers)
  }

  /** A user without a request, as `Auth` makes one. */
  restore(did: string) {
    return this.#load().then((auth) => auth.restore(did))
  }

  /** The user whom a personal key proves, as `Auth` makes one. */
  byKey(...proof: Parameters<Auth['byKey']>) {
    return this.#load().then((auth) => auth.byKey(...proof))
  }

  /** The same user with the stored delegation in force, as `Auth` finds it. */
  withDelegation(user: Parameters<Auth['withDelegation']>[0]) {
    if (this.#made) return this.#made.withDelegation(user)
    return this.#load().then((auth) => auth.withDelegation(user))
  }

  /** Verifies a delegation that `issuer` hands in, as `Auth` does. */
  verifyDelegation(raw: string, expected: { issuer: string }) {
    return this.#load().then((auth) => auth.verifyDelegation(raw, expected))
  }

  /** Loads the authentication now, in pieces, so that the first caller does not wait. */
  async warm(goesOn: () => boolean = () => true): Promise<void> {
    if (!this.#made) await importInPieces(files, import.meta.url, goesOn)
    ;(await this.#load()).practise()
  }

  /** The authentication, loaded once. */
  #load(): Promise<Auth> {
    this.#making ??= import('./authenticate.ts').then(
      ({ Auth }) => (this.#made = new Auth(this.#options)),
    )
    return this.#making
  }
}
