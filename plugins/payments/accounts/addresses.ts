import { createHmac, randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import type { PaymentsDatabase } from '../tables.ts'

/** How many new accounts of one address get the first credit in a day. */
const newAccountsPerDay = 3
/** An address may have so many times the free turns of one DID. */
const turnsFactor = 3

/** Hashes addresses of clients with a key of this app's own, which all replicas share. */
export class AddressHashes {
  readonly #db: PaymentsDatabase
  #key: Promise<string> | undefined

  constructor(db: PaymentsDatabase) {
    this.#db = db
  }

  /** The hash of an address: the address cannot be read out of it, nor found by trying all addresses. */
  async of(address: string): Promise<string> {
    this.#key ??= this.#read().catch((error: unknown) => {
      this.#key = undefined
      throw error
    })
    const hash = createHmac('sha256', await this.#key).update(networkOf(address))
    return hash.digest('base64url').slice(0, 22)
  }

  async #read(): Promise<string> {
    const name = 'addresses'
    await this.#db
      .insertInto('payments_secrets')
      .values({ name, value: randomBytes(32).toString('hex') })
      .onConflict((conflict) => conflict.doNothing())
      .execute()
    const row = await this.#db
      .selectFrom('payments_secrets')
      .select('value')
      .where('name', '=', name)
      .executeTakeFirstOrThrow()
    return row.value
  }
}

/** An IPv4 address, or the first half of an IPv6 one, which is what one subscriber has. */
function networkOf(address: string): string {
  if (!address.includes(':')) return address
  const [left = '', right] = address.toLowerCase().split('::')
  const head = left === '' ? [] : left.split(':')
  const tail = right ? right.split(':') : []
  const zeros = Array<string>(Math.max(8 - head.length - tail.length, 0)).fill('0')
  return [...head, ...(right === undefined ? [] : zeros), ...tail].slice(0, 4).join(':')
}

/** Counts a new account of an address; false when the address has made as many as it may today. */
export const takeNewAccount = (db: PaymentsDatabase, address: string, day: string) =>
  count(db, { address, day, column: 'accounts', most: newAccountsPerDay })

/** Counts a free turn of an address; false when the address has had as many as it may today. */
export const takeFreeTurn = (db: PaymentsDatabase, address: string, day: string, perDid: number) =>
  count(db, { address, day, column: 'turns', most: perDid * turnsFactor })

/** Whether an address has free turns left today. */
export async function hasFreeTurns(
  db: PaymentsDatabase,
  address: string,
  day: string,
  perDid: number,
): Promise<boolean> {
  const row = await db
    .selectFrom('payments_addresses')
    .select('turns')
    .where('address', '=', address)
    .where('day', '=', day)
    .executeTakeFirst()
  return (row?.turns ?? 0) < perDid * turnsFactor
}

/** Gives a free turn back, of a turn that failed. */
export async function giveFreeTurn(db: PaymentsDatabase, address: string, day: string) {
  await db
    .updateTable('payments_addresses')
    .set({ turns: sql<number>`turns - 1` })
    .where('address', '=', address)
    .where('day', '=', day)
    .where('turns', '>', 0)
    .execute()
}

async function count(
  db: PaymentsDatabase,
  counted: { address: string; day: string; column: 'turns' | 'accounts'; most: number },
): Promise<boolean> {
  const { address, day, column, most } = counted
  await db
    .insertInto('payments_addresses')
    .values({ address, day, turns: 0, accounts: 0 })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  const { numUpdatedRows } = await db
    .updateTable('payments_addresses')
    .set({ [column]: sql<number>`${sql.ref(column)} + 1` })
    .where('address', '=', address)
    .where('day', '=', day)
    .where(column, '<', most)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}
