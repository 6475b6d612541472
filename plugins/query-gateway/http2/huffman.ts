/**
 * The lengths of the 256 codes of HPACK's Huffman code (RFC 7541, appendix B), a letter each, where `a` is 1 bit. The
 * code is canonical, so the lengths determine the codes.
 */
const lengths =
  'mwBBBBBBBxDBBDBBBBBBBBDBBBBBBBBBfjjlmfhkjjhkhfffeeefffffffghoflj' +
  'mfgggggggggggggggggggggghghmsmnfoefefefffeggfffefgfeefgggggoknmB' +
  'tvttvvvwvwwwwwxwxxvwxwwwwuvwvwwxvutvvwwuwvvxuvwwuuvuwvwwtvvvwvvw' +
  'zztsvwvyzzzAAzxysuzAAzAxuuzzBAAAtxtuvuuwvvyyxxzwzAzzAAAAABAAAAAz'
const longest = 30

/** For each length of codes: the first code, the number of codes, and the index of their first symbol in `symbols`. */
const first = new Int32Array(longest + 2)
const count = new Int32Array(longest + 2)
const begin = new Int32Array(longest + 2)
const symbols = new Uint8Array(256)

const lengthOf = (symbol: number): number => {
  const letter = lengths.charCodeAt(symbol)
  return letter >= 97 ? letter - 96 : letter - 64 + 26
}
{
  let code = 0
  let at = 0
  for (let length = 1; length <= longest; length++) {
    code <<= 1
    first[length] = code
    begin[length] = at
    for (let symbol = 0; symbol < 256; symbol++)
      if (lengthOf(symbol) === length) {
        symbols[at++] = symbol
        code++
      }
    count[length] = at - begin[length]!
  }
}

/** Decodes Huffman-coded bytes to a text with one character for each byte; undefined where the bytes are not valid. */
export function huffmanDecoded(bytes: Uint8Array, from: number, to: number): string | undefined {
  const out = Buffer.allocUnsafe(Math.floor(((to - from) * 8) / 5))
  let size = 0
  let code = 0
  let length = 0
  for (let at = from; at < to; at++)
    for (let bit = 7; bit >= 0; bit--) {
      code = (code << 1) | ((bytes[at]! >> bit) & 1)
      if (++length > longest) return undefined
      const index = code - first[length]!
      if (index < 0 || index >= count[length]!) continue
      out[size++] = symbols[begin[length]! + index]!
      code = 0
      length = 0
    }
  // The remaining bits must be padding of the last byte: fewer than eight bits, all of them set.
  return length < 8 && code === (1 << length) - 1 ? out.toString('latin1', 0, size) : undefined
}
