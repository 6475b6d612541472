import type { Keyring } from './keys.ts'
import { isPersonalKey } from '../base/log.ts'

/** A text of more pieces than this is not looked through but taken for a credential, to be safe. */
const mostPieces = 64
/** How the archive of a UCAN begins, after its first length: a CAR header with its roots. */
const archiveStart = Buffer.from('a265726f6f7473', 'hex')

/**
 * Whether a text, such as the value of a header, holds what would authenticate a caller here: one of the keys, a
 * person's key, or a UCAN of anybody. For plugins that pass on what a client sent, and must not pass on a credential with it.
 */
export function credentialFinder(keyrings: readonly Keyring[]): (text: string) => boolean {
  const isKey = (piece: string) =>
    isPersonalKey(piece) ||
    keyrings.some((keyring) => keyring.match(`Bearer ${piece}`) !== undefined)
  return (text) => {
    const pieces = piecesOf(text)
    return pieces === undefined || [...pieces].some((piece) => isKey(piece) || isArchive(piece))
  }
}

/** A value may be one credential, one behind its scheme, or several that came in headers of the same name. */
function piecesOf(text: string): ReadonlySet<string> | undefined {
  const words = text.split(/[\s,]+/, mostPieces + 1)
  const parts = text.split(/[\s,;:="']+/, mostPieces + 1)
  if (words.length > mostPieces || parts.length > mostPieces) return undefined
  return new Set([...words, ...parts].filter(Boolean))
}

/** Base64 in either alphabet. Seven bytes tell, so that a long text is not decoded. */
function isArchive(piece: string): boolean {
  const head = Buffer.from(piece.slice(0, 12), 'base64')
  return head.subarray(1, 1 + archiveStart.length).equals(archiveStart)
}
