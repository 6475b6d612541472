import { hash } from 'node:crypto'
import { CID } from 'multiformats/cid'
import { refuse } from '../did/refusal.ts'

/** A block whose bytes are known to hash to its CID. */
export interface Block {
  readonly cid: CID
  readonly bytes: Uint8Array
}

/** An archive of more blocks is refused before anything is hashed. The descriptor counts. */
const mostBlocks = 12

// CIDv1, dag-cbor, sha2-256, 32 bytes: the only kind of CID that a token may hold.
const cidPrefix = Buffer.from('01711220', 'hex')
const cidBytes = 36
// { roots: [CID], version: 1 } and { "ucan@0.9.1": CID } have one canonical encoding each, so they
// are compared with, not decoded: an archive with other bytes there is not a token.
const headerStart = Buffer.from('3aa265726f6f747381d82a582500', 'hex')
const headerEnd = Buffer.from('6776657273696f6e01', 'hex')
const descriptorStart = Buffer.from('a16a7563616e40302e392e31d82a582500', 'hex')

/**
 * Reads the archive that ucanto's `Delegation.archive()` writes: a CARv1 with one root, which is the
 * descriptor `{ "ucan@0.9.1": CID }`, last of the blocks, and before it the delegations, proofs
 * first. Returns the delegations in that order; the last is the one that the descriptor names.
 * Every length is minimal, every block hashed, and nothing stands before, between or behind.
 */
export function readArchive(archive: Buffer): readonly Block[] {
  const root = readHeader(archive)
  const sections: { cid: Buffer; data: Buffer }[] = []
  let at = headerStart.length + cidBytes + headerEnd.length
  while (at < archive.length) {
    if (sections.length === mostBlocks) refuse('too many blocks')
    const [length, bytes] = readLength(archive, at)
    const start = at + bytes
    at = start + length
    if (length <= cidBytes || at > archive.length) refuse('not a canonical archive')
    sections.push({
      cid: archive.subarray(start, start + cidBytes),
      data: archive.subarray(start + cidBytes, at),
    })
  }

  const descriptor = sections.pop()
  const first = sections.at(-1)
  if (!descriptor || !first) refuse('not a canonical archive')
  if (!descriptor.cid.equals(root)) refuse('not a canonical archive')
  if (!descriptor.data.equals(Buffer.concat([descriptorStart, first.cid])))
    refuse('not a canonical archive')
  hashed(descriptor)
  return sections.map(hashed)
}

function readHeader(archive: Buffer): Buffer {
  const root = archive.subarray(headerStart.length, headerStart.length + cidBytes)
  const end = headerStart.length + cidBytes
  if (
    !archive.subarray(0, headerStart.length).equals(headerStart) ||
    !archive.subarray(end, end + headerEnd.length).equals(headerEnd)
  )
    refuse('not a canonical archive')
  return root
}

/** A varint of one or two bytes, in its shortest form: a token is too short to need a third. */
function readLength(archive: Buffer, at: number): [length: number, bytes: number] {
  const low = archive[at] ?? 0
  if (low < 0x80) return [low, 1]
  const high = archive[at + 1] ?? 0
  if (high === 0 || high >= 0x80) refuse('not a canonical archive')
  return [(low & 0x7f) | (high << 7), 2]
}

function hashed({ cid, data }: { cid: Buffer; data: Buffer }): Block {
  if (!cid.subarray(0, cidPrefix.length).equals(cidPrefix)) refuse('not a canonical archive')
  if (!hash('sha256', data, 'buffer').equals(cid.subarray(cidPrefix.length)))
    refuse('a block does not match its hash')
  // Copies: a Buffer is a window on a shared pool, and the codecs look past a window's end.
  return { cid: CID.decode(new Uint8Array(cid)), bytes: new Uint8Array(data) }
}
