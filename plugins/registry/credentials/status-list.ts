import { gzipSync } from 'node:zlib'
import type { Oracle } from '#core'
import type { ClaimsDatabase } from '../claims/tables.ts'
import { notFound } from '../refusal.ts'
import { keyOf, wholeSeconds, withProof } from './data-integrity.ts'

/** Bits in a list: the smallest number that W3C's Bitstring Status List allows, so that one credential hides among others. */
const listBits = 131_072

/** Where a verifier looks whether a credential was revoked. */
export interface StatusEntry {
  readonly id: string
  readonly type: 'BitstringStatusListEntry'
  readonly statusPurpose: 'revocation'
  readonly statusListIndex: string
  readonly statusListCredential: string
}

/** The place of the next credential, inside the transaction that issues it. */
export async function nextStatus(
  db: ClaimsDatabase,
  url: string,
): Promise<{ index: number; entry: StatusEntry }> {
  const last = await db
    .selectFrom('registry_credentials')
    .select('status_index')
    .orderBy('status_index', 'desc')
    .limit(1)
    .executeTakeFirst()
  const index = last === undefined ? 0 : last.status_index + 1
  const list = addressOf(url, Math.floor(index / listBits) + 1)
  const place = String(index % listBits)
  return {
    index,
    entry: {
      id: `${list}#${place}`,
      type: 'BitstringStatusListEntry',
      statusPurpose: 'revocation',
      statusListIndex: place,
      statusListCredential: list,
    },
  }
}

const addressOf = (url: string, list: number) => `${url}/v1/credentials/status/${list}`

/** The signed status list: a credential with one bit for each issued credential, set where the operator revoked that one. */
export async function statusList(db: ClaimsDatabase, oracle: Oracle, list: number) {
  const key = keyOf(oracle)
  const from = (list - 1) * listBits
  const inside = db
    .selectFrom('registry_credentials')
    .where('status_index', '>=', from)
    .where('status_index', '<', from + listBits)
  const any = await inside.select('id').limit(1).executeTakeFirst()
  if (!any) throw notFound('status list', String(list))
  const revoked = await inside.select('status_index').where('revoked_at', 'is not', null).execute()
  const bits = new Uint8Array(listBits / 8)
  for (const { status_index } of revoked) {
    const place = status_index - from
    bits[place >> 3]! |= 0x80 >> (place & 7) // the first bit is the highest of the first byte
  }
  const id = addressOf(oracle.url(), list)
  const now = new Date()
  return withProof(
    {
      '@context': ['https://www.w3.org/ns/credentials/v2'],
      id,
      type: ['VerifiableCredential', 'BitstringStatusListCredential'],
      issuer: key.did,
      validFrom: wholeSeconds(now),
      credentialSubject: {
        id: `${id}#list`,
        type: 'BitstringStatusList',
        statusPurpose: 'revocation',
        encodedList: `u${gzipSync(bits).toString('base64url')}`,
      },
    },
    key,
    now,
  )
}
