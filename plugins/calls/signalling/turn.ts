import { createHash, createHmac } from 'node:crypto'

/** How long a caller's word for the relay is good. */
const goodSeconds = 3_600

/** The relay of the operator. */
export interface Relay {
  readonly urls: readonly string[]
  readonly secret: string
}

/** What a page hands to its RTCPeerConnection. */
export interface IceServer {
  readonly urls: string[]
  readonly username: string
  readonly credential: string
}

/** The relay as one caller may use it for an hour: the names that coturn's `use-auth-secret` knows. Nobody else's server is named. */
export function iceServersFor(relay: Relay | undefined, did: string, now: Date): IceServer[] {
  if (!relay) return []
  const until = Math.floor(now.getTime() / 1_000) + goodSeconds
  const caller = createHash('sha256').update(did).digest('hex').slice(0, 16)
  const username = `${until}:${caller}`
  const credential = createHmac('sha1', relay.secret).update(username).digest('base64')
  return [{ urls: [...relay.urls], username, credential }]
}

/** The relay that the variables name. Throws a sentence where one of the two is missing. */
export function relayOf(env: {
  readonly CALLS_TURN_URLS?: readonly string[] | undefined
  readonly CALLS_TURN_SECRET?: string | undefined
}): Relay | undefined {
  const { CALLS_TURN_URLS: urls, CALLS_TURN_SECRET: secret } = env
  if (urls && secret) return { urls, secret }
  if (!urls && !secret) return undefined
  throw new Error(
    urls
      ? 'CALLS_TURN_URLS needs CALLS_TURN_SECRET, the static-auth-secret of the relay.'
      : 'CALLS_TURN_SECRET needs CALLS_TURN_URLS, such as turn:relay.example.org:3478.',
  )
}
