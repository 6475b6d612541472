import { getOption, hasOption, ScalarType, type DescEnum, type DescField } from '@bufbuild/protobuf'
import { bundledRegistry } from '../descriptors/descriptors.ts'

/** Writes one value as JSON. */
export type WriteValue = (value: never) => string

/** Appends `,"name":value` for one field of a message, or nothing. */
export type AppendField = (message: Record<string, unknown>) => string

/** How a writer appends one field. */
export interface FieldForm {
  /** The start of the field: `,"name":`. */
  readonly key: string
  /** The text for a value that the message does not have: a key with null, or an empty text. */
  readonly absent: string
  readonly withDefaults: boolean
  readonly write: WriteValue
}

/** Makes the writer of a member of a oneof. */
export function appendMember(
  oneof: string,
  localName: string,
  { key, write }: FieldForm,
): AppendField {
  return (message) => {
    const member = message[oneof] as { case: string | undefined; value: never }
    return member.case === localName ? key + write(member.value) : ''
  }
}

/** Makes the writer of a repeated field. */
export function appendList(
  localName: string,
  { key, withDefaults, write }: FieldForm,
): AppendField {
  const empty = withDefaults ? `${key}[]` : ''
  return (message) => {
    const items = message[localName] as never[]
    if (items.length === 0) return empty
    let text = write(items[0] as never)
    for (let index = 1; index < items.length; index++) text += `,${write(items[index] as never)}`
    return `${key}[${text}]`
  }
}

/** Makes the writer of a map. */
export function appendMap(localName: string, { key, withDefaults, write }: FieldForm): AppendField {
  const empty = withDefaults ? `${key}{}` : ''
  return (message) => {
    const entries = Object.entries(message[localName] as Record<string, never>)
    if (entries.length === 0) return empty
    return `${key}{${entries.map(([name, item]) => `${JSON.stringify(name)}:${write(item)}`).join(',')}}`
  }
}

/** Makes the writer of a field with one value that is not a member of a oneof. */
export function appendSingle(
  field: DescField,
  { key, absent, withDefaults, write }: FieldForm,
): AppendField {
  const { localName } = field
  if (field.fieldKind === 'message')
    return (message) => {
      const value = message[localName]
      return value === undefined ? absent : key + write(value as never)
    }
  // A field with explicit presence (proto2, `optional`) has its default value on the prototype when it was not sent.
  if (field.presence !== implicitPresence)
    return (message) =>
      Object.hasOwn(message, localName) && message[localName] !== undefined
        ? key + write(message[localName] as never)
        : absent
  if (field.scalar === ScalarType.BYTES)
    return (message) => {
      const value = message[localName] as Uint8Array
      return value.length === 0 ? absent : key + write(value as never)
    }
  const zero = zeroOf(field)
  const atZero = withDefaults ? key + write(zero as never) : ''
  return (message) => {
    const value = message[localName]
    return Object.is(value, zero) ? atZero : key + write(value as never)
  }
}

const implicitPresence = 2 // google.protobuf.FeatureSet.FieldPresence.IMPLICIT

/** Makes the writer of an enum, which writes the name of a value, or the number of a value without a name. */
export function enumJson({ value, typeName }: DescEnum): WriteValue {
  if (typeName === 'google.protobuf.NullValue') return () => 'null'
  const names = new Map(Object.values(value).map(({ number, name }) => [number, `"${name}"`]))
  return (number: number) => names.get(number) ?? String(number)
}

/** The value of a field that was not sent. */
export function zeroOf(field: DescField): unknown {
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

/** Whether a string field holds a decimal as an integer, multiplied by 10 to the 18th. */
export function isDecimal(field: DescField): boolean {
  if (field.scalar !== ScalarType.STRING) return false
  if (hasOption(field, scalarOption)) return getOption(field, scalarOption) === 'cosmos.Dec'
  return (
    hasOption(field, customType) && /\b(Legacy)?Dec$/.test(String(getOption(field, customType)))
  )
}
