import type { Database } from '#core'

/** What a development ledger is made with. */
export interface DevelopmentOptions {
  readonly db: Database
  readonly chainId: string
  readonly prefix: string
  readonly denom: string
  readonly decimals: number
  now(): Date
}

/** An account that the server keeps for a DID. */
export interface DevelopmentAccount {
  readonly address: string
  readonly collectionId: string
}
