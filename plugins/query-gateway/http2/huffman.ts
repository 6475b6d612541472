/**
 * The Huffman code of HPACK (RFC 7541, appendix B). It is canonical, so the lengths of the 256 codes, a
 * letter each, say it all: `a` is 1 bit.
 */
const lengths =
  'mwBBBBBBBxDBBDBBBBBBBBDBBBBBBBBBfjjlmfhkjjhkhfffeeefffffffghoflj' +
  'mfgggggggggggggggggggggghghmsmnfoefefefffeggfffefgfeefgggggoknmB' +
  'tvttvvvwvwwwwwxwxxvwxwwwwuvwvwwxvutvvwwuwvvxuvwwuuvuwvwwtvvvwvvw' +
  'zztsvwvyzzzAAzxysuzAAzAxuuzzBAAAtxtuvuuwvvyyxxzwzAzzAAAAABAAAAAz'
const longest = 30

/** By length: the first code, how many there are, and where their symbols begin in `symbols`. */
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

/** The text of Huffman-coded bytes, a character a byte; undefined where they are no such code. */
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
  // What is left pads the last byte: fewer than eight bits, all of them set.
  return length < 8 && code === (1 << length) - 1 ? out.toString('latin1', 0, size) : undefined
}
