import { createSecretKey } from 'node:crypto'
import type { RTCPeerConnection } from 'werift'

/** What a cipher keeps as bytes; the second only where packets are signed apart from their encryption. */
const names = ['srtpSessionKey', 'srtpSessionAuthTag'] as const

/**
 * Makes keys of Node's of the bytes with which sound is encrypted. Node makes one of bytes at each packet, both ways, which costs three
 * times what the encryption does.
 */
export function keepKeys({ dtlsTransports }: Pick<RTCPeerConnection, 'dtlsTransports'>): void {
  for (const { srtp } of dtlsTransports)
    for (const context of [srtp?.localContext, srtp?.remoteContext]) {
      const cipher: Partial<Record<(typeof names)[number], unknown>> = context?.cipher ?? {}
      for (const name of names) {
        const bytes = cipher[name]
        if (bytes instanceof Uint8Array) cipher[name] = createSecretKey(bytes)
      }
    }
}
