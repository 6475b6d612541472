import { huffmanDecoded } from './huffman.ts'

/** Decoded headers: names are in lower case, and a name that came several times has all its values. */
export type Headers = Readonly<Record<string, string | readonly string[] | undefined>>
type Header = readonly [name: string, value: string]

/** The error for a header block that cannot be decoded. The connection must close, because its table is lost. */
export class CompressionError extends Error {}

const token = /^[!#$%&'*+.^_`|~0-9a-z-]+$/
const plainText = /^[\t\x20-\x7e\x80-\xff]*$/

/** The static table of RFC 7541, appendix A. */
const staticHeaders: readonly Header[] = [
  [':authority', ''],
  [':method', 'GET'],
  [':method', 'POST'],
  [':path', '/'],
  [':path', '/index.html'],
  [':scheme', 'http'],
  [':scheme', 'https'],
  ...[200, 204, 206, 304, 400, 404, 500].map((status): Header => [':status', String(status)]),
  ['accept-charset', ''],
  ['accept-encoding', 'gzip, deflate'],
  ...(
    'accept-language accept-ranges accept access-control-allow-origin age allow authorization ' +
    'cache-control content-disposition content-encoding content-language content-length ' +
    'content-location content-range content-type cookie date etag expect expires from host ' +
    'if-match if-modified-since if-none-match if-range if-unmodified-since last-modified link ' +
    'location max-forwards proxy-authenticate proxy-authorization range referer refresh ' +
    'retry-after server set-cookie strict-transport-security transfer-encoding user-agent vary ' +
    'via www-authenticate'
  )
    .split(' ')
    .map((name): Header => [name, '']),
]
const entryOverhead = 32

interface Entry {
  readonly name: string
  readonly value: string
  readonly size: number
  /** Whether the header is also valid in HTTP/1; the decoder drops a header that is not. */
  readonly sound: boolean
}

function entryOf(name: string, value: string): Entry {
  const sound = (name === ':status' || token.test(name)) && plainText.test(value)
  return { name, value, size: name.length + value.length + entryOverhead, sound }
}

const staticTable = staticHeaders.map(([name, value]) => entryOf(name, value))
const nameIndex = new Map<string, number>()
for (const [index, { name }] of staticTable.entries())
  if (!nameIndex.has(name)) nameIndex.set(name, index + 1)

const tableBytes = 4096

/** Reads the header blocks of one connection, which share a table. */
export class HeaderDecoder {
  readonly #maxListBytes: number
  /** The dynamic table, newest entry first. */
  readonly #table: Entry[] = []
  #tableSize = 0
  #tableMax = tableBytes
  #at = 0

  constructor(maxListBytes: number) {
    this.#maxListBytes = maxListBytes
  }

  /** Decodes a block, or throws a CompressionError. A list that is too long is decoded for the table, but returned as undefined. */
  decode(block: Buffer): Headers | undefined {
    const headers: Record<string, string | string[]> = Object.create(null)
    let listBytes = 0
    let begun = false
    this.#at = 0
    while (this.#at < block.length) {
      const byte = block[this.#at]!
      if (byte >= 0x20 && byte < 0x40) {
        if (begun) throw new CompressionError('a table is resized in the middle of a block')
        this.#resize(this.#integer(block, 5))
        continue
      }
      begun = true
      const header =
        byte >= 0x80 ? this.#entry(this.#integer(block, 7)) : this.#literal(block, byte)
      listBytes += header.size
      if (listBytes > this.#maxListBytes || !header.sound) continue
      const { name, value } = header
      const before = headers[name]
      if (before === undefined) headers[name] = value
      else if (typeof before === 'string') headers[name] = [before, value]
      else before.push(value)
    }
    return listBytes > this.#maxListBytes ? undefined : headers
  }

  #literal(block: Buffer, byte: number): Entry {
    const indexed = byte >= 0x40
    const index = this.#integer(block, indexed ? 6 : 4)
    const name = index === 0 ? this.#text(block) : this.#entry(index).name
    const header = entryOf(name, this.#text(block))
    if (indexed) this.#insert(header)
    return header
  }

  #entry(index: number): Entry {
    const header =
      index > staticTable.length
        ? this.#table[index - staticTable.length - 1]
        : staticTable[index - 1]
    if (header === undefined) throw new CompressionError(`there is no table entry ${index}`)
    return header
  }

  #integer(block: Buffer, prefixBits: number): number {
    const most = (1 << prefixBits) - 1
    let value = block[this.#at++]! & most
    if (value < most) return value
    for (let shift = 0; shift <= 21; shift += 7) {
      const byte = block[this.#at++]
      if (byte === undefined) break
      value += (byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
    throw new CompressionError('a number is cut off or too large')
  }

  #text(block: Buffer): string {
    const huffman = (block[this.#at] ?? 0) >= 0x80
    const length = this.#integer(block, 7)
    const from = this.#at
    this.#at += length
    if (!(this.#at <= block.length))
      throw new CompressionError('a text is longer than its header block')
    if (!huffman) return block.toString('latin1', from, this.#at)
    const text = huffmanDecoded(block, from, this.#at)
    if (text === undefined) throw new CompressionError('a text is not valid Huffman code')
    return text
  }

  #insert(header: Entry): void {
    this.#table.unshift(header)
    this.#tableSize += header.size
    this.#evict()
  }

  #resize(max: number): void {
    if (max > tableBytes) throw new CompressionError('a table is larger than was agreed')
    this.#tableMax = max
    this.#evict()
  }

  #evict(): void {
    while (this.#tableSize > this.#tableMax) this.#tableSize -= this.#table.pop()!.size
  }
}

/** Encodes headers without changing the table of the other side, so that callers can store and repeat blocks. */
export function encodeHeaders(headers: Iterable<Header>): Buffer {
  const pieces: Buffer[] = []
  for (const [name, value] of headers) {
    const index = nameIndex.get(name)
    if (name === ':method' && value === 'POST') pieces.push(Buffer.of(0x83))
    else if (name === ':scheme') pieces.push(Buffer.of(value === 'https' ? 0x87 : 0x86))
    else if (index === undefined) pieces.push(Buffer.of(0), textBytes(name), textBytes(value))
    else pieces.push(integerBytes(index, 4, isSecret(name) ? neverIndexed : 0), textBytes(value))
  }
  return Buffer.concat(pieces)
}

const neverIndexed = 0x10
const isSecret = (name: string) => name === 'authorization' || name === 'cookie'

function textBytes(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1')
  return Buffer.concat([integerBytes(bytes.length, 7), bytes])
}

function integerBytes(value: number, prefixBits: number, kind = 0): Buffer {
  const most = (1 << prefixBits) - 1
  if (value < most) return Buffer.of(kind | value)
  const bytes = [kind | most]
  let rest = value - most
  for (; rest >= 0x80; rest >>= 7) bytes.push((rest & 0x7f) | 0x80)
  bytes.push(rest)
  return Buffer.from(bytes)
}
