import { createWallet } from './wallet.ts'

/** The part of `localStorage` that a wallet needs. */
interface Store {
  getItem(key: string): string | null
  setItem(key: string, value: string): void
}

/** A wallet that is the same user at every visit. Use it only for development: every script of a page can read the storage. */
export function browserWallet(store: Store) {
  let seed = store.getItem('wallet-seed')
  if (seed === null) {
    seed = btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))))
    store.setItem('wallet-seed', seed)
  }
  return createWallet(Uint8Array.from(atob(seed), (character) => character.charCodeAt(0)))
}

/** Calls `fetch` with the headers that authenticate the user. */
export async function fetchAs(
  store: Store,
  oracleDid: string,
  url: string,
  init: RequestInit = {},
) {
  const wallet = await browserWallet(store)
  const headers = new Headers(init.headers)
  headers.set('authorization', `Bearer ${(await wallet.createInvocation(oracleDid)).serialized}`)
  headers.set('x-auth-type', 'ucan')
  headers.set('x-ucan-delegation', (await wallet.createDelegation(oracleDid)).serialized)
  return fetch(url, { ...init, headers })
}
