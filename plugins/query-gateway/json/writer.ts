import {
  fromBinary,
  getOption,
  hasOption,
  ScalarType,
  toJson,
  type DescEnum,
  type DescField,
  type DescMessage,
  type Message,
  type Registry,
} from '@bufbuild/protobuf'
import { bundledRegistry } from '../descriptors/descriptors.ts'
import { hasOwnForm, isWrapper } from './own-forms.ts'
import { decimalText, scalarJson } from './scalars.ts'

/** How JSON is written: as a ledger, grpc-gateway or protobuf itself writes it. */
export type Dialect = 'cosmos' | 'grpc-gateway' | 'proto3'

/** What JSON writers are compiled with. */
export interface WriterOptions {
  readonly dialect: Dialect
  readonly registry: Registry
  /** Render `cosmos.Dec` fields, which travel as integers of 18 decimals, as decimals. */
  readonly decimals: boolean
}

/** Writes a message as JSON. */
export type WriteJson = (message: Message) => string
type WriteValue = (value: never) => string

/** How deep Any may stand in Any: each level is decoded while it is written. */
const deepestAny = 32

/**
 * Compiles a writer for each message type when it is first asked for. A writer is a list of closures in
 * declaration order that append to a string; nothing about the type is looked up while writing.
 */
export function createJsonWriter({ dialect, registry, decimals }: WriterOptions) {
  const compiled = new Map<DescMessage, WriteJson>()
  const protoNames = dialect !== 'proto3'
  const withDefaults = dialect === 'cosmos'
  let anyDepth = 0

  function writerOf(desc: DescMessage): WriteJson {
    const known = compiled.get(desc)
    if (known) return known
    // A type may hold itself, so the name is taken before the fields are compiled.
    let write: WriteJson = () => ''
    compiled.set(desc, (message) => write(message))
    write = compile(desc)
    compiled.set(desc, write)
    return write
  }

  function compile(desc: DescMessage): WriteJson {
    if (desc.typeName === 'google.protobuf.Any') return writeAny
    if (hasOwnForm(desc)) {
      const wrapped = desc.typeName.endsWith('Value') ? desc.fields[0]?.scalar : undefined
      if (wrapped !== undefined) {
        const write = scalarJson(wrapped)
        return (message) => write((message as unknown as { value: never }).value)
      }
      return (message) => JSON.stringify(toJson(desc, message, { registry }))
    }
    const fields = desc.fields.map(compileField)
    return (message) => {
      let text = ''
      for (const field of fields) text += field(message as unknown as Record<string, unknown>)
      return text === '' ? '{}' : `{${text.slice(1)}}`
    }
  }

  /** Appends `,"name":value`, or nothing. */
  function compileField(field: DescField): (message: Record<string, unknown>) => string {
    const key = `,${JSON.stringify(protoNames ? field.name : field.jsonName)}:`
    const { localName } = field
    if (field.oneof) {
      const oneof = field.oneof.localName
      const write = compileValue(field)
      return (message) => {
        const member = message[oneof] as { case: string | undefined; value: never }
        return member.case === localName ? key + write(member.value) : ''
      }
    }
    if (field.fieldKind === 'list') {
      const item = compileItem(field)
      const empty = withDefaults ? `${key}[]` : ''
      return (message) => {
        const items = message[localName] as never[]
        if (items.length === 0) return empty
        let text = item(items[0] as never)
        for (let index = 1; index < items.length; index++) text += `,${item(items[index] as never)}`
        return `${key}[${text}]`
      }
    }
    if (field.fieldKind === 'map') {
      const value = compileItem(field)
      const empty = withDefaults ? `${key}{}` : ''
      return (message) => {
        const entries = Object.entries(message[localName] as Record<string, never>)
        if (entries.length === 0) return empty
        return `${key}{${entries.map(([name, item]) => `${JSON.stringify(name)}:${value(item)}`).join(',')}}`
      }
    }
    const write = compileValue(field)
    const absent = withDefaults ? `${key}null` : ''
    if (field.fieldKind === 'message')
      return (message) => {
        const value = message[localName]
        return value === undefined ? absent : key + write(value as never)
      }
    // Explicit presence (proto2, `optional`): a value that was not sent lives on the prototype.
    if (field.presence !== implicitPresence)
      return (message) =>
        Object.hasOwn(message, localName) && message[localName] !== undefined
          ? key + write(message[localName] as never)
          : absent
    const zero = zeroOf(field)
    if (field.scalar === ScalarType.BYTES)
      return (message) => {
        const value = message[localName] as Uint8Array
        return value.length === 0 ? absent : key + write(value as never)
      }
    const atZero = withDefaults ? key + write(zero as never) : ''
    return (message) => {
      const value = message[localName]
      return Object.is(value, zero) ? atZero : key + write(value as never)
    }
  }

  /** A singular field. The library keeps wrappers unwrapped and Structs as plain JSON there. */
  function compileValue(field: DescField): WriteValue {
    if (field.message !== undefined) {
      if (field.message.typeName === 'google.protobuf.Struct') return JSON.stringify
      const inner = field.message.fields[0]?.scalar
      if (inner !== undefined && isWrapper(field.message) && !field.oneof) return scalarJson(inner)
      return writerOf(field.message) as WriteValue
    }
    if (field.enum) return enumJson(field.enum)
    if (decimals && isDecimal(field)) return (value: string) => JSON.stringify(decimalText(value))
    return scalarJson(field.scalar!) // what is neither message nor enum is a scalar
  }

  function compileItem(field: DescField): WriteValue {
    if (field.message === undefined) {
      if (field.enum) return enumJson(field.enum)
      if (decimals && isDecimal(field)) return (value: string) => JSON.stringify(decimalText(value))
      return scalarJson(field.scalar!) // as above
    }
    if (field.message.typeName === 'google.protobuf.Struct') return JSON.stringify
    return writerOf(field.message) as WriteValue
  }

  function writeAny(message: Message): string {
    const { typeUrl, value } = message as unknown as { typeUrl: string; value: Uint8Array }
    if (typeUrl === '') return '{}'
    const type = `"@type":${JSON.stringify(typeUrl)}`
    const opaque = () => `{${type},"value":${scalarJson(ScalarType.BYTES)(value as never)}}`
    const desc = registry.getMessage(typeUrl.slice(typeUrl.lastIndexOf('/') + 1))
    if (desc === undefined || anyDepth >= deepestAny) return opaque()
    let inner: Message
    try {
      inner = fromBinary(desc, value)
    } catch {
      // Bytes that are not of the type they claim are shown as what they are.
      return opaque()
    }
    anyDepth++
    try {
      const json = writerOf(desc)(inner)
      if (hasOwnForm(desc)) return `{${type},"value":${json}}`
      return json === '{}' ? `{${type}}` : `{${type},${json.slice(1)}`
    } finally {
      anyDepth--
    }
  }

  /** Writes one field of a message, also where a whole message would leave it out. */
  function fieldWriterOf(field: DescField): WriteJson {
    const write = compileField(field)
    const skip = JSON.stringify(protoNames ? field.name : field.jsonName).length + 2
    const unset = defaultJson(field)
    return (message) => {
      const text = write(message as unknown as Record<string, unknown>)
      return text === '' ? unset : text.slice(skip)
    }
  }

  function defaultJson(field: DescField): string {
    if (field.fieldKind === 'list') return '[]'
    if (field.fieldKind === 'map') return '{}'
    if (field.message !== undefined) return 'null'
    return compileValue(field)(zeroOf(field) as never)
  }

  return { writerOf, fieldWriterOf }
}

const implicitPresence = 2 // google.protobuf.FeatureSet.FieldPresence.IMPLICIT

/** An unknown number stays one. */
function enumJson({ value, typeName }: DescEnum): WriteValue {
  if (typeName === 'google.protobuf.NullValue') return () => 'null'
  const names = new Map(Object.values(value).map(({ number, name }) => [number, `"${name}"`]))
  return (number: number) => names.get(number) ?? String(number)
}

function zeroOf(field: DescField): unknown {
  if (field.enum) return field.enum.values[0]?.number ?? 0
  return field.fieldKind === 'scalar'
    ? (field.getDefaultValue() ?? zeroes(field.scalar))
    : undefined
}

function zeroes(scalar: ScalarType): unknown {
  switch (scalar) {
    case ScalarType.STRING:
      return ''
    case ScalarType.BOOL:
      return false
    case ScalarType.BYTES:
      return new Uint8Array()
    case ScalarType.INT64:
    case ScalarType.UINT64:
    case ScalarType.SINT64:
    case ScalarType.FIXED64:
    case ScalarType.SFIXED64:
      return 0n
    default:
      return 0
  }
}

const scalarOption = bundledRegistry.getExtension('cosmos_proto.scalar')!
const customType = bundledRegistry.getExtension('gogoproto.customtype')!

function isDecimal(field: DescField): boolean {
  if (field.scalar !== ScalarType.STRING) return false
  if (hasOption(field, scalarOption)) return getOption(field, scalarOption) === 'cosmos.Dec'
  return (
    hasOption(field, customType) && /\b(Legacy)?Dec$/.test(String(getOption(field, customType)))
  )
}
