import { readFileSync } from 'node:fs'
import { fromBinary, toBinary, toJson } from '@bufbuild/protobuf'
import { describe, expect, it } from 'vitest'
import { parse } from './operations/bind.ts'
import { readDescriptorSet, registryOf } from './descriptors/descriptors.ts'
import { parseJson } from './json/exact.ts'
import { JsonWriter, type Dialect } from './json/writer.ts'
import { pruneUnknown } from './json/prune.ts'

const file = new URL('fixtures/mapping.binpb', import.meta.url)
const registry = registryOf(readDescriptorSet(readFileSync(file)))
const all = registry.getMessage('mapping.All')!

/** Encodes the text of a body as a message, in the same way as a request. */
const taken = (text: string) =>
  toBinary(all, parse(all, pruneUnknown(all, parseJson(text), registry), registry))

function told(bytes: Uint8Array, dialect: Dialect = 'proto3'): string {
  const writer = new JsonWriter({ dialect, registry, decimals: false })
  return writer.writerOf(all)(fromBinary(all, bytes))
}

/** The rows of the published table: the JSON that is read, and the JSON that is written where the two differ. */
const rows: Record<string, [read: string, written?: string][]> = {
  'message: object, both names, unknown keys ignored, null is the default': [
    ['{"anInner":{}}'],
    ['{"an_inner":{"text":"x"}}', '{"anInner":{"text":"x"}}'],
    ['{"anInner":null}', '{}'],
    ['{"renamed":"x"}'],
    ['{"other_name":"x"}', '{"renamed":"x"}'],
    ['{"otherName":"x"}', '{}'],
    ['{"nothingOfTheKind":{"deep":[1]}}', '{}'],
    ['{"anInner":{"inner":{"inner":{"text":"deep"}}}}'],
  ],
  'enum: by name or number, an unknown number stays one': [
    ['{"aKind":"KIND_ONE"}'],
    ['{"aKind":1}', '{"aKind":"KIND_ONE"}'],
    ['{"aKind":-1}', '{"aKind":"KIND_MINUS"}'],
    ['{"aKind":99}'],
    ['{"aKind":"KIND_ZERO"}', '{}'],
    ['{"aKind":null}', '{}'],
    ['{"kinds":[0,"KIND_ONE",99]}', '{"kinds":["KIND_ZERO","KIND_ONE",99]}'],
  ],
  'map: keys of every kind as text': [
    ['{"texts":{"a":"x","":"y","é\\"":"z"}}'],
    ['{"texts":{"__proto__":"x","constructor":"y","toString":"z"}}'],
    ['{"byName":{"__proto__":{"text":"x"}}}'],
    [
      '{"byInt32":{"-2147483648":"a","2147483647":"b"}}',
      '{"byInt32":{"2147483647":"b","-2147483648":"a"}}',
    ],
    ['{"bySint32":{"-1":"a"}}'],
    ['{"bySfixed32":{"-1":"a"}}'],
    ['{"byUint32":{"4294967295":"a"}}'],
    ['{"byFixed32":{"0":"a"}}'],
    ['{"byNumber":{"-9223372036854775808":"a"}}'],
    ['{"bySint64":{"9223372036854775807":"a"}}'],
    ['{"bySfixed64":{"-1":"a"}}'],
    ['{"byUint64":{"18446744073709551615":"a"}}'],
    ['{"byFixed64":{"0":"a"}}'],
    ['{"byBool":{"true":"KIND_ONE","false":"KIND_ZERO"}}'],
    ['{"timesByName":{"a":"2026-01-01T00:00:00Z"}}'],
    ['{"valuesByName":{"a":null,"b":[1,{"c":true}]}}'],
    ['{"texts":null}', '{}'],
    ['{"texts":{}}', '{}'],
  ],
  'repeated: array, null is the empty list': [
    ['{"ints":[0,-1,2147483647]}'],
    ['{"strings":["","a"]}'],
    ['{"bytesList":["","AQI="]}'],
    ['{"doubles":[0,-0.5,"NaN","Infinity","-Infinity",1e+300]}'],
    ['{"inners":[{},{"text":"x"}]}'],
    ['{"wrappedList":["0","-1"]}'],
    ['{"ints":null}', '{}'],
    ['{"ints":[]}', '{}'],
  ],
  bool: [['{"aBool":true}'], ['{"aBool":false}', '{}'], ['{"aBool":null}', '{}']],
  string: [
    ['{"aString":"é\\"\\\\\\n😀"}'],
    ['{"aString":"\\u2028"}', '{"aString":"\u2028"}'],
    ['{"aString":"\\ud83d\\ude00"}', '{"aString":"😀"}'],
    ['{"aString":null}', '{}'],
  ],
  'bytes: base64, standard or url-safe, padded or not': [
    ['{"someBytes":"+/8="}'],
    ['{"someBytes":"+/8"}', '{"someBytes":"+/8="}'],
    ['{"someBytes":"-_8="}', '{"someBytes":"+/8="}'],
    ['{"someBytes":"-_8"}', '{"someBytes":"+/8="}'],
    ['{"someBytes":""}', '{}'],
  ],
  'int32, fixed32, uint32: number, read as text too, and with an exponent': [
    ['{"anInt32":-2147483648}'],
    ['{"anInt32":"5"}', '{"anInt32":5}'],
    ['{"anInt32":1e2}', '{"anInt32":100}'],
    ['{"anInt32":"1e2"}', '{"anInt32":100}'],
    ['{"anInt32":1.0}', '{"anInt32":1}'],
    ['{"anInt32":"1.0"}', '{"anInt32":1}'],
    ['{"aSint32":2147483647}'],
    ['{"aSfixed32":-1}'],
    ['{"aUint32":4294967295}'],
    ['{"aFixed32":4294967295}'],
  ],
  'int64, fixed64, uint64: text, read as a number too, with every digit': [
    ['{"anInt64":"-9223372036854775808"}'],
    ['{"anInt64":9223372036854775807}', '{"anInt64":"9223372036854775807"}'],
    ['{"anInt64":-9007199254740993}', '{"anInt64":"-9007199254740993"}'],
    ['{"aUint64":18446744073709551615}', '{"aUint64":"18446744073709551615"}'],
    ['{"aSint64":"9007199254740993"}'],
    ['{"aFixed64":"18446744073709551615"}'],
    ['{"aSfixed64":"-1"}'],
    ['{"anInt64":1e2}', '{"anInt64":"100"}'],
    ['{"anInt64":"1e2"}', '{"anInt64":"100"}'],
    ['{"anInt64":"1.50e1"}', '{"anInt64":"15"}'],
    ['{"anInt64":"120e-1"}', '{"anInt64":"12"}'],
    ['{"anInt64":"1.0"}', '{"anInt64":"1"}'],
    [
      '{"anInner":{"numbers":[9007199254740993,"1e1"]}}',
      '{"anInner":{"numbers":["9007199254740993","10"]}}',
    ],
    ['{"wrappedInt64":9007199254740993}', '{"wrappedInt64":"9007199254740993"}'],
  ],
  'float and double: number, or NaN and the infinities as text': [
    ['{"aFloat":0.1}'],
    ['{"aFloat":3.4028235e+38}'],
    ['{"aFloat":1.17549435e-38}', '{"aFloat":1.1754944e-38}'],
    ['{"aFloat":"0.5"}', '{"aFloat":0.5}'],
    ['{"aFloat":16777217}', '{"aFloat":16777216}'],
    ['{"aFloat":"NaN"}'],
    ['{"aFloat":"-Infinity"}'],
    ['{"aDouble":1.7976931348623157e+308}'],
    ['{"aDouble":5e-324}'],
    ['{"aDouble":"1e3"}', '{"aDouble":1000}'],
    ['{"aDouble":12345678901234567890}', '{"aDouble":12345678901234567000}'],
    ['{"aDouble":"Infinity"}'],
    ['{"aDouble":"NaN"}'],
    ['{"aDouble":1.0}', '{"aDouble":1}'],
  ],
  'Any: the type beside the fields, or beside the value of a type with its own form': [
    ['{"any":{}}'],
    ['{"any":{"@type":"type.googleapis.com/mapping.Inner"}}'],
    ['{"any":{"@type":"type.googleapis.com/mapping.Inner","text":"x","numbers":["1"]}}'],
    [
      '{"any":{"text":"x","@type":"type.googleapis.com/mapping.Inner"}}',
      '{"any":{"@type":"type.googleapis.com/mapping.Inner","text":"x"}}',
    ],
    [
      '{"any":{"@type":"type.googleapis.com/mapping.Inner","unknown":1}}',
      '{"any":{"@type":"type.googleapis.com/mapping.Inner"}}',
    ],
    [
      '{"any":{"@type":"type.googleapis.com/google.protobuf.Timestamp","value":"2026-01-01T00:00:00Z"}}',
    ],
    ['{"any":{"@type":"type.googleapis.com/google.protobuf.Duration","value":"1.500s"}}'],
    ['{"any":{"@type":"type.googleapis.com/google.protobuf.FieldMask","value":"aBool"}}'],
    ['{"any":{"@type":"type.googleapis.com/google.protobuf.Struct","value":{"a":[1]}}}'],
    ['{"any":{"@type":"type.googleapis.com/google.protobuf.Value","value":null}}'],
    ['{"any":{"@type":"type.googleapis.com/google.protobuf.ListValue","value":[1,"a"]}}'],
    [
      '{"any":{"@type":"type.googleapis.com/google.protobuf.Int64Value","value":9007199254740993}}',
      '{"any":{"@type":"type.googleapis.com/google.protobuf.Int64Value","value":"9007199254740993"}}',
    ],
    ['{"any":{"@type":"type.googleapis.com/google.protobuf.BytesValue","value":"AQI="}}'],
    [
      '{"any":{"@type":"type.googleapis.com/google.protobuf.Any","value":{"@type":"type.googleapis.com/mapping.Inner","text":"x"}}}',
    ],
    ['{"any":{"@type":"type.googleapis.com/google.protobuf.Empty"}}'],
    ['{"anys":[{"@type":"type.googleapis.com/mapping.Inner"},{}]}'],
  ],
  'Timestamp: RFC 3339, Z, 0, 3, 6 or 9 digits': [
    ['{"time":"1970-01-01T00:00:00Z"}'],
    ['{"time":"0001-01-01T00:00:00Z"}'],
    ['{"time":"9999-12-31T23:59:59.999999999Z"}'],
    ['{"time":"2026-11-21T05:00:00.1Z"}', '{"time":"2026-11-21T05:00:00.100Z"}'],
    ['{"time":"2026-11-21T05:00:00.120Z"}'],
    ['{"time":"2026-11-21T05:00:00.1234Z"}', '{"time":"2026-11-21T05:00:00.123400Z"}'],
    ['{"time":"2026-11-21T05:00:00.000001Z"}'],
    ['{"time":"2026-11-21T05:00:00.000000001Z"}'],
    ['{"time":"2026-11-21T05:00:00+01:00"}', '{"time":"2026-11-21T04:00:00Z"}'],
    ['{"time":"2026-11-21T05:00:00-23:59"}', '{"time":"2026-11-22T04:59:00Z"}'],
    ['{"time":null}', '{}'],
    ['{"time":"1969-12-31T23:59:59.500Z"}'],
  ],
  'Duration: seconds with 0, 3, 6 or 9 digits': [
    ['{"duration":"0s"}'],
    ['{"duration":"1s"}'],
    ['{"duration":"1.5s"}', '{"duration":"1.500s"}'],
    ['{"duration":"3.000001s"}'],
    ['{"duration":"3.000000001s"}'],
    ['{"duration":"-0.5s"}', '{"duration":"-0.500s"}'],
    ['{"duration":"-3.000000001s"}'],
    ['{"duration":"315576000000s"}'],
    ['{"duration":"-315576000000s"}'],
  ],
  'Struct, Value, ListValue, NullValue: JSON as it is': [
    ['{"struct":{}}'],
    ['{"struct":{"a":null,"b":[true,{"c":"x"}],"d":-1.5}}'],
    ['{"struct":{"big":12345678901234567890}}', '{"struct":{"big":12345678901234567000}}'],
    ['{"struct":{"__proto__":1}}'],
    ['{"structs":[{},{"a":{}}]}'],
    ['{"value":null}'],
    ['{"value":false}'],
    ['{"value":"x"}'],
    ['{"value":[1,[],{}]}'],
    ['{"value":{"a":{"b":null}}}'],
    ['{"values":[]}'],
    ['{"values":[null,1,"x",{}]}'],
    ['{"valueList":[null,1]}'],
    ['{"nothing":null}', '{}'],
  ],
  'wrappers: as what they wrap, null is kept apart from the default': [
    ['{"wrappedDouble":0}'],
    ['{"wrappedDouble":"NaN"}'],
    ['{"wrappedFloat":0.1}'],
    ['{"wrappedInt64":"0"}'],
    ['{"wrappedUint64":"18446744073709551615"}'],
    ['{"wrappedInt32":0}'],
    ['{"wrappedInt32":"-5"}', '{"wrappedInt32":-5}'],
    ['{"wrappedUint32":4294967295}'],
    ['{"wrappedBool":false}'],
    ['{"wrappedString":""}'],
    ['{"wrappedBytes":""}'],
    ['{"wrappedBytes":"-_8"}', '{"wrappedBytes":"+/8="}'],
    ['{"wrappedBool":null}', '{}'],
  ],
  'FieldMask: camel case with commas between': [
    ['{"mask":""}'],
    ['{"mask":"aBool"}'],
    ['{"mask":"aBool,anInner.text,fooBarBaz"}'],
  ],
  'Empty: an object': [['{"empty":{}}'], ['{"empty":{"more":1}}', '{"empty":{}}']],
  'oneof: one member, its default too': [
    ['{"byText":""}'],
    ['{"byInner":{}}'],
    ['{"byInt":0}'],
    ['{"byKind":"KIND_ZERO"}'],
    ['{"byWrapper":""}'],
    ['{"byNull":null}'],
    ['{"byBytes":""}'],
    ['{"byTime":"1970-01-01T00:00:00Z"}'],
    ['{"byText":"x","byInner":null}', '{"byText":"x"}'],
  ],
  'optional: its default is not its absence': [
    ['{"maybe":0}'],
    ['{"maybeText":""}'],
    ['{"maybe":null}', '{}'],
  ],
}

describe('the table of the proto3 JSON mapping', () => {
  for (const [row, cases] of Object.entries(rows))
    describe(row, () => {
      it.each(cases)('%s', (read, written = read) => {
        const bytes = taken(read)
        expect(told(bytes)).toBe(written)
        // The writer of the protobuf library must give the same JSON.
        const theirs = toJson(all, fromBinary(all, bytes), { registry })
        if (!read.includes('aFloat') && !read.includes('wrappedFloat'))
          expect(JSON.parse(told(bytes))).toEqual(theirs)
        // Reading the written JSON gives the same message again.
        expect(told(taken(written))).toBe(written)
      })
    })

  it.each([
    ['{"aKind":"NOBODY"}'],
    ['{"aKind":"kind_one"}'],
    ['{"aKind":1.5}'],
    ['{"aBool":"true"}'],
    ['{"aBool":1}'],
    ['{"aString":1}'],
    ['{"someBytes":"!!"}'],
    ['{"anInt32":""}'],
    ['{"anInt32":" 1"}'],
    ['{"anInt32":1.5}'],
    ['{"anInt32":2147483648}'],
    ['{"aUint32":-1}'],
    ['{"anInt64":"1.5"}'],
    ['{"anInt64":9223372036854775808}'],
    ['{"aUint64":"18446744073709551616"}'],
    ['{"aUint64":-1}'],
    ['{"anInt64":"1e999"}'],
    ['{"anInt64":"0x10"}'],
    ['{"anInt64":" 1"}'],
    ['{"anInt32":"0x10"}'],
    ['{"aDouble":"0x10"}'],
    ['{"byNumber":{"0x10":"x"}}'],
    ['{"byInt32":{"1e2":"x"}}'],
    ['{"aFloat":3.5e38}'],
    ['{"aFloat":"inf"}'],
    ['{"aDouble":""}'],
    ['{"aDouble":1e999}'],
    ['{"strings":[null]}'],
    ['{"kinds":[null]}'],
    ['{"strings":"a"}'],
    ['{"texts":[]}'],
    ['{"texts":{"a":null}}'],
    ['{"byBool":{"yes":"KIND_ONE"}}'],
    ['{"byInt32":{"2147483648":"x"}}'],
    ['{"byNumber":{"":"x"}}'],
    ['{"anInner":[]}'],
    ['{"anInner":"x"}'],
    ['{"anInner":9007199254740993}'],
    ['{"any":{"@type":"type.googleapis.com/no.Such"}}'],
    ['{"any":{"text":"x"}}'],
    ['{"time":"10000-01-01T00:00:00Z"}'],
    ['{"time":"0000-01-01T00:00:00Z"}'],
    ['{"time":"2026-01-01T00:00:00"}'],
    ['{"time":"2026-01-01T00:00:00.1234567891Z"}'],
    ['{"time":"2026-01-01t00:00:00z"}'],
    ['{"time":1}'],
    ['{"duration":"315576000001s"}'],
    ['{"duration":"1"}'],
    ['{"duration":"1.0000000001s"}'],
    ['{"duration":1}'],
    ['{"mask":"a_b"}'],
    ['{"struct":[]}'],
    ['{"values":{}}'],
    ['{"wrappedInt64":"x"}'],
    ['{"byText":"x","byInt":1}'],
    ['{"anInner":{},"an_inner":{}}'],
  ])('refuses %s', (text) => {
    expect(() => taken(text)).toThrow(expect.objectContaining({ status: 400 }))
  })

  it('keeps minus zero, which only the wire brings', () => {
    const bytes = Buffer.from([0x41, 0, 0, 0, 0, 0, 0, 0, 0x80])
    expect(told(bytes)).toBe('{"aDouble":-0}')
  })

  it.each([
    [
      'a Timestamp out of range',
      Buffer.from([0xc2, 0x01, 8, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f]),
    ],
    ['a Value without a value', Buffer.from([0xe2, 0x01, 0])],
  ])('cannot say %s', (_, bytes) => {
    expect(() => told(bytes)).toThrow()
  })
})
