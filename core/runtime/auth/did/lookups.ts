import { RuntimeError } from '../../../errors.ts'

/** How many look-ups are under way at once in all: each costs this server a request and up to three seconds. */
const mostUnderWay = 64
/** How many of the look-ups under way one address may have asked for. */
const mostOfOne = 16
/** Stands for the address of a look-up that the server makes for itself, such as for a run that is taken over. */
const ours = 'this server'

interface LookUp<T> {
  readonly promise: Promise<T>
  readonly stop: AbortController
  /** The address that asked for it; undefined once another address waits for the look-up too. */
  of: string | undefined
}

/** The look-ups under way: one for each key, a share for each address, and none at the cost of another address. */
export class LookUps<T> {
  readonly #underWay = new Map<string, LookUp<T>>()

  /** Begins a look-up, or joins the one under way. Throws ISSUER_LOOKUP_UNAVAILABLE when there is no room. */
  once(key: string, address = ours, ask: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const already = this.#underWay.get(key)
    if (already) {
      if (already.of !== address) already.of = undefined
      return already.promise
    }
    this.#makeRoom(address)
    const stop = new AbortController()
    const promise = ask(stop.signal).finally(() => {
      if (this.#underWay.get(key)?.stop === stop) this.#underWay.delete(key)
    })
    this.#underWay.set(key, { promise, stop, of: address })
    return promise
  }

  /** Where all places are taken, the address with the most of them gives one to an address that has fewer. */
  #makeRoom(address: string): void {
    const taken = new Map<string | undefined, [key: string, lookUp: LookUp<T>][]>()
    for (const entry of this.#underWay) {
      const those = taken.get(entry[1].of)
      if (those) those.push(entry)
      else taken.set(entry[1].of, [entry])
    }
    const mine = taken.get(address)?.length ?? 0
    if (mine >= mostOfOne && address !== ours) throw lookUpUnavailable(1)
    if (this.#underWay.size < mostUnderWay) return
    taken.delete(undefined)
    const [greediest] = [...taken.values()].sort((a, b) => b.length - a.length)
    const oldest = greediest?.[0]
    if (!greediest || !oldest || greediest.length <= mine + 1) throw lookUpUnavailable(1)
    const [key, { stop }] = oldest
    this.#underWay.delete(key)
    stop.abort()
  }
}

/** The answer to a caller whose issuer cannot be looked up: the server cannot say whether the credential is good. */
export function lookUpUnavailable(seconds: number): RuntimeError {
  return new RuntimeError(
    'ISSUER_LOOKUP_UNAVAILABLE',
    'The issuer of the credential cannot be looked up just now.',
    {
      hint: `Send the same again in ${seconds === 1 ? 'a second' : `${seconds} seconds`}.`,
      headers: { 'Retry-After': String(seconds), 'Cache-Control': 'no-store' },
    },
  )
}

/** Whether an error is that of `lookUpUnavailable`. */
export const isLookUpUnavailable = (error: unknown): error is RuntimeError =>
  error instanceof RuntimeError && error.code === 'ISSUER_LOOKUP_UNAVAILABLE'
