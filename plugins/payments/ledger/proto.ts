/** A message of protobuf, as it is on the wire. */
export type Bytes = Uint8Array<ArrayBuffer>

const none: Bytes = new Uint8Array(0)

/** Puts the fields of a message together, in the order in which they are given. */
export function message(...fields: readonly Uint8Array[]): Bytes {
  const bytes = new Uint8Array(fields.reduce((sum, field) => sum + field.length, 0))
  let at = 0
  for (const field of fields) {
    bytes.set(field, at)
    at += field.length
  }
  return bytes
}

/** A whole number. As proto3 has it, zero is left out. */
export const uint = (field: number, value: number | bigint): Bytes =>
  BigInt(value) === 0n ? none : message(varint(BigInt(field) << 3n), varint(BigInt(value)))

/** A text. As proto3 has it, an empty one is left out. */
export const text = (field: number, value: string): Bytes =>
  value === '' ? none : part(field, new TextEncoder().encode(value))

/** Bytes. As proto3 has it, no bytes are left out. */
export const bytes = (field: number, value: Uint8Array): Bytes =>
  value.length === 0 ? none : part(field, value)

/** A message within a message, or an entry of a list: it is there even when it has no fields. */
export const part = (field: number, value: Uint8Array): Bytes =>
  message(varint((BigInt(field) << 3n) | 2n), varint(BigInt(value.length)), value)

function varint(value: bigint): Bytes {
  const out: number[] = []
  let rest = BigInt.asUintN(64, value)
  for (; rest > 127n; rest >>= 7n) out.push(Number(rest & 127n) | 128)
  out.push(Number(rest))
  return Uint8Array.from(out)
}

/** Bytes that are no message, or not the expected one. */
export class NotProto extends Error {}

/** How many fields one message may have. */
const mostFields = 20_000

/** The fields of a message that came from outside. */
export class ProtoFields {
  readonly #fields = new Map<number, (bigint | Bytes)[]>()

  /** Reads all fields. Throws `NotProto` when the bytes are no message, or end half-way. */
  constructor(source: Uint8Array) {
    let at = 0
    const readVarint = (): bigint => {
      let value = 0n
      for (let shift = 0n; shift < 70n; shift += 7n) {
        const byte = source[at++]
        if (byte === undefined) throw new NotProto('The message ends half-way.')
        value |= BigInt(byte & 127) << shift
        if (byte < 128) return BigInt.asUintN(64, value)
      }
      throw new NotProto('A number has too many bytes.')
    }
    const take = (length: number): Bytes => {
      if (length > source.length - at) throw new NotProto('The message ends half-way.')
      at += length
      return source.slice(at - length, at)
    }
    for (let count = 0; at < source.length; count++) {
      if (count === mostFields) throw new NotProto('The message has too many fields.')
      const key = readVarint()
      const field = Number(key >> 3n)
      const kind = Number(key & 7n)
      const value =
        kind === 0
          ? readVarint()
          : kind === 2
            ? take(Number(readVarint()))
            : kind === 1
              ? take(8)
              : kind === 5
                ? take(4)
                : undefined
      if (value === undefined || field === 0) throw new NotProto('A field is of no known kind.')
      const known = this.#fields.get(field)
      if (known) known.push(value)
      else this.#fields.set(field, [value])
    }
  }

  /** A whole number; 0 where the field is missing. */
  uint(field: number): bigint {
    const value = this.#fields.get(field)?.at(-1) ?? 0n
    if (typeof value !== 'bigint') throw new NotProto(`Field ${field} is no number.`)
    return value
  }

  /** Bytes, or a message within the message; none where the field is missing. */
  bytes(field: number): Bytes {
    return this.all(field).at(-1) ?? none
  }

  /** A text; empty where the field is missing. */
  text(field: number): string {
    return utf8(this.bytes(field))
  }

  /** A message within the message; undefined where it is missing. */
  part(field: number): ProtoFields | undefined {
    const value = this.all(field).at(-1)
    return value && new ProtoFields(value)
  }

  /** The entries of a list. */
  all(field: number): Bytes[] {
    return (this.#fields.get(field) ?? []).map((value) => {
      if (typeof value === 'bigint') throw new NotProto(`Field ${field} is a number.`)
      return value
    })
  }

  /** The texts of a list. */
  texts(field: number): string[] {
    return this.all(field).map(utf8)
  }
}

function utf8(value: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(value)
  } catch {
    throw new NotProto('A text is not UTF-8.')
  }
}
