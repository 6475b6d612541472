const alphabet = 'qpzry9x8gf2tvdw0s3jn54khce6mua7l'
const generator = [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3]

/** An address of the ledger: the prefix, and twenty bytes with a checksum. */
export function toBech32(prefix: string, data: Uint8Array): string {
  const words = regroup(data, 8, 5, true) ?? []
  const check = checksum([...expanded(prefix), ...words, 0, 0, 0, 0, 0, 0]) ^ 1
  const tail = [0, 1, 2, 3, 4, 5].map((i) => (check >> (5 * (5 - i))) & 31)
  return `${prefix}1${[...words, ...tail].map((word) => alphabet[word]).join('')}`
}

/** The bytes of an address with this prefix; undefined where it is none, or its checksum is wrong. */
export function fromBech32(prefix: string, address: string): Uint8Array | undefined {
  if (address.length > 90 || !address.startsWith(`${prefix}1`)) return undefined
  const words = [...address.slice(prefix.length + 1)].map((letter) => alphabet.indexOf(letter))
  if (words.length < 7 || words.includes(-1)) return undefined
  if (checksum([...expanded(prefix), ...words]) !== 1) return undefined
  const data = regroup(words.slice(0, -6), 5, 8, false)
  // 20 bytes name an account, 32 a contract or a module.
  return data && (data.length === 20 || data.length === 32) ? Uint8Array.from(data) : undefined
}

const expanded = (prefix: string): number[] => {
  const codes = [...prefix].map((letter) => letter.charCodeAt(0))
  return [...codes.map((code) => code >> 5), 0, ...codes.map((code) => code & 31)]
}

function checksum(values: readonly number[]): number {
  let sum = 1
  for (const value of values) {
    const top = sum >> 25
    sum = ((sum & 0x1ffffff) << 5) ^ value
    for (const [i, mask] of generator.entries()) if ((top >> i) & 1) sum ^= mask
  }
  return sum
}

function regroup(
  data: ArrayLike<number>,
  from: number,
  to: number,
  pads: boolean,
): number[] | undefined {
  const out: number[] = []
  let held = 0
  let bits = 0
  for (const value of Array.from(data)) {
    held = ((held << from) | value) & 0xfff
    bits += from
    for (; bits >= to; bits -= to) out.push((held >> (bits - to)) & ((1 << to) - 1))
  }
  const rest = (held << (to - bits)) & ((1 << to) - 1)
  if (pads && bits > 0) out.push(rest)
  return !pads && (bits >= from || rest !== 0) ? undefined : out
}
