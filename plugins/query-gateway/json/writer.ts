import {
  fromBinary,
  ScalarType,
  toJson,
  type DescField,
  type DescMessage,
  type Message,
  type Registry,
} from '@bufbuild/protobuf'
import {
  appendList,
  appendMap,
  appendMember,
  appendSingle,
  enumJson,
  isDecimal,
  zeroOf,
  type AppendField,
  type FieldForm,
  type WriteValue,
} from './fields.ts'
import { hasOwnForm, isWrapper } from './own-forms.ts'
import { decimalText, scalarJson } from './scalars.ts'

/** The dialect of JSON: that of a Cosmos ledger, of grpc-gateway, or of protobuf itself. */
export type Dialect = 'cosmos' | 'grpc-gateway' | 'proto3'

/** The options of a JSON writer. */
export interface WriterOptions {
  readonly dialect: Dialect
  readonly registry: Registry
  /** Whether to write `cosmos.Dec` fields, which messages hold as integers of 18 decimals, as decimals. */
  readonly decimals: boolean
}

/** Writes a message as JSON. */
export type WriteJson = (message: Message) => string

/** How deep Any may nest in Any, because the writer decodes each level recursively. */
const deepestAny = 32

/**
 * Compiles a writer for each message type on its first use. A writer is a list of closures, in the order of the fields'
 * declarations, that append to a string; writing looks up nothing about the type.
 */
export class JsonWriter {
  readonly #registry: Registry
  readonly #decimals: boolean
  readonly #protoNames: boolean
  readonly #withDefaults: boolean
  readonly #compiled = new Map<DescMessage, WriteJson>()
  #anyDepth = 0

  constructor({ dialect, registry, decimals }: WriterOptions) {
    this.#registry = registry
    this.#decimals = decimals
    this.#protoNames = dialect !== 'proto3'
    this.#withDefaults = dialect === 'cosmos'
  }

  /** The writer of a message type. */
  writerOf(desc: DescMessage): WriteJson {
    const known = this.#compiled.get(desc)
    if (known) return known
    // A type may contain itself, so the map has an entry for the type before the fields are compiled.
    let write: WriteJson = () => ''
    this.#compiled.set(desc, (message) => write(message))
    write = this.#compile(desc)
    this.#compiled.set(desc, write)
    return write
  }

  /** The writer of one field of a message, which also writes a value that a whole message would leave out. */
  fieldWriterOf(field: DescField): WriteJson {
    const write = this.#compileField(field)
    const skip = this.#keyOf(field).length
    const unset = this.#defaultJson(field)
    return (message) => {
      const text = write(message as unknown as Record<string, unknown>)
      return text === '' ? unset : text.slice(skip)
    }
  }

  #compile(desc: DescMessage): WriteJson {
    if (desc.typeName === 'google.protobuf.Any') return this.#writeAny
    if (hasOwnForm(desc)) {
      const wrapped = desc.typeName.endsWith('Value') ? desc.fields[0]?.scalar : undefined
      if (wrapped !== undefined) {
        const write = scalarJson(wrapped)
        return (message) => write((message as unknown as { value: never }).value)
      }
      const registry = this.#registry
      return (message) => JSON.stringify(toJson(desc, message, { registry }))
    }
    const fields = desc.fields.map((field) => this.#compileField(field))
    return (message) => {
      let text = ''
      for (const field of fields) text += field(message as unknown as Record<string, unknown>)
      return text === '' ? '{}' : `{${text.slice(1)}}`
    }
  }

  #compileField(field: DescField): AppendField {
    const isMany = field.fieldKind === 'list' || field.fieldKind === 'map'
    const key = this.#keyOf(field)
    const form: FieldForm = {
      key,
      absent: this.#withDefaults ? `${key}null` : '',
      withDefaults: this.#withDefaults,
      write: isMany ? this.#compileItem(field) : this.#compileValue(field),
    }
    if (field.oneof) return appendMember(field.oneof.localName, field.localName, form)
    if (field.fieldKind === 'list') return appendList(field.localName, form)
    if (field.fieldKind === 'map') return appendMap(field.localName, form)
    return appendSingle(field, form)
  }

  /** The start of a field: `,"name":`. */
  #keyOf(field: DescField): string {
    return `,${JSON.stringify(this.#protoNames ? field.name : field.jsonName)}:`
  }

  /** Compiles the writer of a singular field, in which the library holds wrappers unwrapped and Structs as plain JSON. */
  #compileValue(field: DescField): WriteValue {
    const inner = field.message?.fields[0]?.scalar
    if (field.message && inner !== undefined && isWrapper(field.message) && !field.oneof)
      return scalarJson(inner)
    return this.#compileItem(field)
  }

  #compileItem(field: DescField): WriteValue {
    if (field.message === undefined) {
      if (field.enum) return enumJson(field.enum)
      if (this.#decimals && isDecimal(field))
        return (value: string) => JSON.stringify(decimalText(value))
      return scalarJson(field.scalar!) // what is neither message nor enum is a scalar
    }
    if (field.message.typeName === 'google.protobuf.Struct') return JSON.stringify
    return this.writerOf(field.message) as WriteValue
  }

  readonly #writeAny: WriteJson = (message) => {
    const { typeUrl, value } = message as unknown as { typeUrl: string; value: Uint8Array }
    if (typeUrl === '') return '{}'
    const type = `"@type":${JSON.stringify(typeUrl)}`
    const opaque = () => `{${type},"value":${scalarJson(ScalarType.BYTES)(value as never)}}`
    const desc = this.#registry.getMessage(typeUrl.slice(typeUrl.lastIndexOf('/') + 1))
    if (desc === undefined || this.#anyDepth >= deepestAny) return opaque()
    let inner: Message
    try {
      inner = fromBinary(desc, value)
    } catch {
      // The bytes are not of the type that `typeUrl` names, so the writer shows them as base64.
      return opaque()
    }
    this.#anyDepth++
    try {
      const json = this.writerOf(desc)(inner)
      if (hasOwnForm(desc)) return `{${type},"value":${json}}`
      return json === '{}' ? `{${type}}` : `{${type},${json.slice(1)}`
    } finally {
      this.#anyDepth--
    }
  }

  #defaultJson(field: DescField): string {
    if (field.fieldKind === 'list') return '[]'
    if (field.fieldKind === 'map') return '{}'
    if (field.message !== undefined) return 'null'
    return this.#compileValue(field)(zeroOf(field) as never)
  }
}
