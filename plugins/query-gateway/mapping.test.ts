import { readFileSync } from 'node:fs'
import { fromBinary, fromJson, toBinary, type JsonValue, type Message } from '@bufbuild/protobuf'
import { describe, expect, it } from 'vitest'
import { compileBinding } from './operations/bind.ts'
import { readDescriptorSet, registryOf } from './descriptors/descriptors.ts'
import { readRules } from './operations/http-rule.ts'
import { JsonWriter, type Dialect } from './json/writer.ts'
import { decimalText, shortestFloat } from './json/scalars.ts'

const file = new URL('fixtures/mapping.binpb', import.meta.url)
const registry = registryOf(readDescriptorSet(readFileSync(file)))
const all = registry.getMessage('mapping.All')!
const [get, post] = readRules(registry).rules

/** Encodes a value as an upstream would send it, and writes the decoded value as JSON. */
function written(json: JsonValue, dialect: Dialect = 'proto3', decimals = false): unknown {
  const bytes = toBinary(all, fromJson(all, json, { registry }))
  const writer = new JsonWriter({ dialect, registry, decimals }).writerOf(all)
  return JSON.parse(writer(fromBinary(all, bytes)))
}

describe('the proto3 JSON mapping', () => {
  it.each<[JsonValue, JsonValue?]>([
    [{}],
    [{ aBool: true }],
    [{ anInt32: -2147483648 }],
    [{ anInt64: '-9223372036854775808' }],
    [{ aUint64: '18446744073709551615' }],
    [{ aFixed32: 4294967295 }],
    [{ aSint64: '-1' }],
    [{ aFloat: 0.1 }],
    [{ aFloat: 3.4028235e38 }],
    [{ aFloat: 16777216 }],
    [{ aDouble: 0.1 }],
    [{ aDouble: 1e21 }],
    [{ aDouble: 'NaN' }],
    [{ aDouble: 'Infinity' }],
    [{ aFloat: '-Infinity' }],
    [{ aString: 'é"\\\n\u2028😀' }],
    [{ someBytes: '+/8=' }],
    [{ aKind: 'KIND_ONE' }],
    [{ aKind: 'KIND_MINUS' }],
    [{ aKind: 7 }],
    [{ aKind: 1 }, { aKind: 'KIND_ONE' }],
    [{ anInner: {} }],
    [{ anInner: { text: 'a', numbers: ['1', '2'], inner: { text: 'b' } } }],
    [{ strings: ['', 'a'] }],
    [{ ints: [0, 1, -1] }],
    [{ kinds: ['KIND_ZERO', 'KIND_ONE', 9] }],
    [{ inners: [{}, { text: 'x' }] }],
    [{ byName: { a: { text: 'x' }, '': {} } }],
    [{ byNumber: { '-1': 'minus', '9007199254740993': 'big' } }],
    [{ byBool: { true: 'KIND_ONE', false: 'KIND_ZERO' } }],
    [{ byText: '' }],
    [{ byInner: {} }],
    [{ byInt: 0 }],
    [{ maybe: 0 }],
    [{ any: { '@type': 'type.googleapis.com/mapping.Inner', text: 'x' } }],
    [{ any: { '@type': 'type.googleapis.com/mapping.Inner' } }],
    [{ any: { '@type': 'type.googleapis.com/google.protobuf.Duration', value: '1.500s' } }],
    [{ time: '1970-01-01T00:00:00Z' }],
    [{ time: '2026-11-21T05:00:00.120Z' }],
    [{ time: '2026-11-21T05:00:00.000000001Z' }],
    [{ time: '2026-11-21T05:00:00+01:00' }, { time: '2026-11-21T04:00:00Z' }],
    [{ duration: '0s' }],
    [{ duration: '-1.500s' }],
    [{ duration: '3.000001s' }],
    [{ mask: 'aBool,anInner.text' }],
    [{ struct: { a: 1, b: [true, null, { c: 'x' }] } }],
    [{ struct: {} }],
    [{ value: null }],
    [{ value: [1, 'a', { b: false }] }],
    [{ values: [1, null, 'x'] }],
    [{ wrappedInt64: '0' }],
    [{ wrappedInt64: '9223372036854775807' }],
    [{ wrappedBool: false }],
    [{ wrappedString: '' }],
    [{ wrappedBytes: '' }],
    [{ wrappedBytes: 'AQI=' }],
    [{ wrappedDouble: 0 }],
    [{ times: ['1970-01-01T00:00:00Z', '2026-01-01T00:00:00Z'] }],
    [{ renamed: 'x' }],
    [{ other_name: 'x' }, { renamed: 'x' }],
  ])('%j', (json, expected = json) => {
    expect(written(json)).toEqual(expected)
  })

  it('is written with proto names and without defaults for grpc-gateway', () => {
    expect(written({ anInt64: '5', aBool: false, anInner: {} }, 'grpc-gateway')).toEqual({
      an_int64: '5',
      an_inner: {},
    })
  })

  it('is written with every field, in the order of declaration, for a ledger', () => {
    const json = written({ aKind: 'KIND_ONE' }, 'cosmos') as Record<string, unknown>
    expect(Object.keys(json).slice(0, 4)).toEqual(['a_bool', 'an_int32', 'an_int64', 'a_uint64'])
    expect(json).toMatchObject({
      a_bool: false,
      an_int64: '0',
      a_float: 0,
      a_string: '',
      some_bytes: null,
      a_kind: 'KIND_ONE',
      an_inner: null,
      strings: [],
      by_name: {},
      maybe: null,
      time: null,
      wrapped_bool: null,
    })
    expect(json).not.toHaveProperty('by_text')
  })

  it('shows an Any of a type nobody knows as its bytes', () => {
    const any = registry.getMessage('google.protobuf.Any')!
    const bytes = toBinary(
      any,
      Object.assign(fromJson(any, {}), {
        typeUrl: '/foreign.Thing',
        value: new Uint8Array([1, 2]),
      }),
    )
    const writer = new JsonWriter({ dialect: 'proto3', registry, decimals: false }).writerOf(any)
    expect(JSON.parse(writer(fromBinary(any, bytes)))).toEqual({
      '@type': '/foreign.Thing',
      value: 'AQI=',
    })
  })

  it('writes decimals where the operator wants them', () => {
    expect(written({ amount: '1500000000000000000' }, 'proto3', true)).toEqual({ amount: '1.5' })
    expect(written({ amount: '1500000000000000000' })).toEqual({ amount: '1500000000000000000' })
  })

  it.each([
    ['1', '0.000000000000000001'],
    ['-1000000000000000000', '-1'],
    ['0', '0'],
    ['123456789000000000000000000', '123456789'],
    ['1.5', '1.5'],
    ['', ''],
  ])('decimal %s is %s', (text, expected) => expect(decimalText(text)).toBe(expected))

  it.each([
    [0.1, '0.1'],
    [16777217, '16777216'],
    [1.17549435e-38, '1.1754944e-38'],
    [0, '0'],
  ])('float %d is %s', (value, expected) =>
    expect(shortestFloat(Math.fround(value))).toBe(expected),
  )
})

describe('binding', () => {
  const bind = compileBinding(get!, { registry, strictQuery: false })
  const bound = (query: string, path = 'id') => {
    const writer = new JsonWriter({
      dialect: 'grpc-gateway',
      registry,
      decimals: false,
    }).writerOf(all)
    const { a_string: _, ...rest } = JSON.parse(writer(bind({ path: [path], query })))
    return rest
  }

  it.each<[string, object]>([
    ['a_bool=true', { a_bool: true }],
    ['aBool=true', { a_bool: true }],
    ['an_int64=-5', { an_int64: '-5' }],
    ['a_uint64=18446744073709551615', { a_uint64: '18446744073709551615' }],
    ['a_float=0.5', { a_float: 0.5 }],
    ['a_double=NaN', { a_double: 'NaN' }],
    ['a_double=1e3', { a_double: 1000 }],
    ['a_kind=KIND_ONE', { a_kind: 'KIND_ONE' }],
    ['a_kind=1', { a_kind: 'KIND_ONE' }],
    ['a_kind=-1', { a_kind: 'KIND_MINUS' }],
    ['strings=a&strings=b', { strings: ['a', 'b'] }],
    ['kinds=1&kinds=KIND_ZERO', { kinds: ['KIND_ONE', 'KIND_ZERO'] }],
    ['an_inner.text=x&anInner.inner.text=y', { an_inner: { text: 'x', inner: { text: 'y' } } }],
    ['an_inner.numbers=1&an_inner.numbers=2', { an_inner: { numbers: ['1', '2'] } }],
    ['by_number[7]=x', { by_number: { 7: 'x' } }],
    ['by_text=x', { by_text: 'x' }],
    ['maybe=0', { maybe: 0 }],
    ['some_bytes=%2B%2F8%3D', { some_bytes: '+/8=' }],
    ['some_bytes=-_8=', { some_bytes: '+/8=' }],
    ['some_bytes=%2B%2F8', { some_bytes: '+/8=' }],
    ['some_bytes=-_8', { some_bytes: '+/8=' }],
    ['time=2026-01-01T00:00:00Z', { time: '2026-01-01T00:00:00Z' }],
    ['duration=1.5s', { duration: '1.500s' }],
    ['mask=aBool,aString', { mask: 'aBool,aString' }],
    ['mask=a_bool,an_inner.text', { mask: 'aBool,anInner.text' }],
    ['mask=', { mask: '' }],
    ...['1', 't', 'T', 'TRUE', 'true', 'True'].map(
      (text) =>
        [`a_bool=${text}&wrapped_bool=${text}`, { a_bool: true, wrapped_bool: true }] as [
          string,
          object,
        ],
    ),
    ...['0', 'f', 'F', 'FALSE', 'false', 'False'].map(
      (text) =>
        [`a_bool=${text}&wrapped_bool=${text}`, { wrapped_bool: false }] as [string, object],
    ),
    ['by_bool[1]=KIND_ONE&by_bool[F]=1', { by_bool: { true: 'KIND_ONE', false: 'KIND_ONE' } }],
    ['wrapped_int64=5', { wrapped_int64: '5' }],
    ['wrapped_bool=false', { wrapped_bool: false }],
    ['unknown=1&an_inner.unknown=2', {}],
    ['a_string=elsewhere', {}],
    ['value.string_value=x&struct.fields[a]=1&time.seconds=5&any.type_url=x', {}],
    [
      'wrapped_double=-1.5e3&wrapped_string=&wrapped_bytes=-_8',
      { wrapped_double: -1500, wrapped_string: '', wrapped_bytes: '+/8=' },
    ],
    ['an_int64=1e3&a_uint64=5.0', { an_int64: '1000', a_uint64: '5' }],
    ['a_float=-Infinity', { a_float: '-Infinity' }],
    [
      'by_bool[true]=KIND_ONE&by_uint64[5]=x',
      { by_bool: { true: 'KIND_ONE' }, by_uint64: { 5: 'x' } },
    ],
    [
      'times=2026-01-01T00:00:00Z&times=1970-01-01T00:00:00Z',
      { times: ['2026-01-01T00:00:00Z', '1970-01-01T00:00:00Z'] },
    ],
    ['bytes_list=AQ&bytes_list=AQ%3D%3D', { bytes_list: ['AQ==', 'AQ=='] }],
    ['renamed=x', { other_name: 'x' }],
    ['other_name=x', { other_name: 'x' }],
    ['&&a_bool=true&', { a_bool: true }],
  ])('%s', (query, expected) => expect(bound(query)).toEqual(expected))

  it.each([
    'a_bool=yes',
    'an_int32=2147483648',
    'an_int32=1.5',
    'an_int32=',
    'a_uint64=-1',
    'a_kind=NOBODY',
    'some_bytes=%21',
    'an_int32=1&an_int32=2',
    'an_inner=x',
    'by_text=x&by_int=1',
    'time=yesterday',
    'an_int64=0x10',
    'a_double=0x10',
    'a_float=1e40',
    'a_bool=tRUE',
    'a_bool=2',
    'a_bool=',
    'mask=a bool',
    'mask=a..b',
    'mask=a,,b',
    'by_bool[yes]=KIND_ONE',
    'value=x',
    'any=x',
    'inners.text=x&inners=y',
  ])('refuses %s', (query) => expect(() => bound(query)).toThrow())

  it('keeps a path of a mask that JSON cannot say', () => {
    const { mask } = bind({ path: ['id'], query: 'mask=line_1,an_inner.line_2' }) as Message & {
      mask: { paths: string[] }
    }
    expect(mask.paths).toEqual(['line_1', 'an_inner.line_2'])
  })

  it('lets the path win, prunes a body and refuses unknown names where told to', () => {
    const body = { text: 'body', numbers: [1], unknown: 1, inner: { more: 2 } }
    const message = compileBinding(post!, { registry, strictQuery: false })({
      path: ['path'],
      query: '',
      body,
    })
    const writer = new JsonWriter({ dialect: 'proto3', registry, decimals: false }).writerOf(all)
    expect(JSON.parse(writer(message))).toEqual({
      anInner: { text: 'path', numbers: ['1'], inner: {} },
    })
    const strict = compileBinding(get!, { registry, strictQuery: true })
    expect(() => strict({ path: ['a'], query: 'unknown=1' })).toThrow(
      'no query parameter "unknown"',
    )
  })
})
