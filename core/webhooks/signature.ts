import { createHmac, timingSafeEqual } from 'node:crypto'

/** What Standard Webhooks signs. */
export interface Signed {
  readonly id: string
  /** When it was sent, in seconds since 1970, in digits. */
  readonly timestamp: string
  readonly body: string | Uint8Array
}

/** The signature of Standard Webhooks by one key: `v1,` and base64. */
export function signatureOf({ id, timestamp, body }: Signed, key: Uint8Array): string {
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`
}

/** Whether two texts are the same. The time it takes tells their lengths and nothing of their letters. */
export function isSame(a: string, b: string): boolean {
  const [one, other] = [Buffer.from(a), Buffer.from(b)]
  return one.length === other.length && timingSafeEqual(one, other)
}
