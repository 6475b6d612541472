import { describe, expect, it } from 'vitest'
import { encodeHeaders, HeaderDecoder } from './hpack.ts'

const bytes = (hex: string) => Buffer.from(hex.replaceAll(' ', ''), 'hex')
const decoder = () => new HeaderDecoder(64 * 1024)

describe('HPACK, by the examples of RFC 7541, appendix C', () => {
  const first = {
    ':status': '302',
    'cache-control': 'private',
    date: 'Mon, 21 Oct 2013 20:13:21 GMT',
    location: 'https://www.example.com',
  }
  const second = { ...first, ':status': '307' }
  const third = {
    ':status': '200',
    'cache-control': 'private',
    date: 'Mon, 21 Oct 2013 20:13:22 GMT',
    location: 'https://www.example.com',
    'content-encoding': 'gzip',
    'set-cookie': 'foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1',
  }
  // The examples of C.5 and C.6 use a table of 256 bytes, to which the first block resizes the table.
  it.each([
    [
      'C.5, plain',
      [
        '3fe101 4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323' +
          '120474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d',
        '4803333037c1c0bf',
        '88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f' +
          '6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b' +
          '2076657273696f6e3d31',
      ],
    ],
    [
      'C.6, Huffman',
      [
        '3fe101 488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3',
        '4883640effc1c0bf',
        '88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335' +
          'dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007',
      ],
    ],
  ])('%s', (_, blocks) => {
    const hpack = decoder()
    expect(blocks.map((hex) => ({ ...hpack.decode(bytes(hex)) }))).toEqual([first, second, third])
  })

  it('reads what it writes', () => {
    const headers = [
      ['authorization', 'Bearer x'],
      ['x-long', 'y'.repeat(20_000)],
      ['user-agent', ''],
      ['x-latin', 'ÿé'],
    ] as const
    expect({ ...decoder().decode(encodeHeaders(headers)) }).toEqual(Object.fromEntries(headers))
  })

  it('keeps every value of a name, and no name of an object', () => {
    const block = encodeHeaders([
      ['x-a', '1'],
      ['x-a', '2'],
      ['x-a', '3'],
      ['__proto__', 'x'],
      ['constructor', 'y'],
    ])
    const headers = decoder().decode(block)!
    expect(headers['x-a']).toEqual(['1', '2', '3'])
    expect(Object.getPrototypeOf(headers)).toBeNull()
    expect(Object.keys(headers)).toEqual(['x-a', '__proto__', 'constructor'])
  })

  it('drops what could not stand in an answer of HTTP/1', () => {
    const block = encodeHeaders([
      ['x-split', 'a\r\nset-cookie: b'],
      ['X-Upper', 'a'],
      ['bad name', 'a'],
      ['', 'a'],
      [':path', '/'],
      ['x-fine', 'a'],
    ])
    expect({ ...decoder().decode(block) }).toEqual({ 'x-fine': 'a' })
  })

  it('reads a list that is too long to its end, for the sake of the table, and tells none of it', () => {
    const hpack = new HeaderDecoder(100)
    // Two literals that enter the table: one of 200 bytes, and a short one.
    const long = Buffer.concat([
      Buffer.of(0x40, 1),
      Buffer.from('a'),
      Buffer.of(0x7f, 0x49),
      Buffer.alloc(200, 'x'),
    ])
    const short = Buffer.concat([
      Buffer.of(0x40, 1),
      Buffer.from('b'),
      Buffer.of(1),
      Buffer.from('y'),
    ])
    expect(hpack.decode(Buffer.concat([long, short]))).toBeUndefined()
    expect({ ...hpack.decode(Buffer.of(0xbe)) }).toEqual({ b: 'y' })
  })

  it.each([
    ['an entry that does not exist', 'be'],
    ['entry zero', '80'],
    ['a number without an end', 'ffffffffffffff'],
    ['a number that is cut', 'ff80'],
    ['a text that is cut', '0005616263'],
    ['a text without a length', '00'],
    ['a table that is larger than agreed', '3fe1ff03'],
    ['a table resized in the middle', '88 3fe101'],
    ['Huffman with eight bits of padding', '000161 82 1fff'],
    ['Huffman padded with zeros', '000161 81 18'],
    ['the end-of-string code in Huffman', '000161 84 ffffffff'],
  ])('refuses %s', (_, hex) => {
    expect(() => decoder().decode(bytes(hex))).toThrow()
  })

  it('never loops nor throws anything else on noise', () => {
    let seed = 7
    const next = () => (seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff) >>> 16
    for (let round = 0; round < 3000; round++) {
      const noise = Buffer.from(Array.from({ length: next() % 60 }, () => next() & 255))
      try {
        decoder().decode(noise)
      } catch (thrown) {
        expect((thrown as Error).constructor.name).toBe('CompressionError')
      }
    }
  })
})
