import {
  fromBinary,
  toBinary,
  type DescMethod,
  type FileRegistry,
  type JsonValue,
  type Message,
} from '@bufbuild/protobuf'
import { FileDescriptorProtoSchema, type FileDescriptorProto } from '@bufbuild/protobuf/wkt'
import { createHash } from 'node:crypto'
import { RuntimeError } from '#core'
import { compileBinding, parse, type Sources } from './bind.ts'
import { registryOf } from '../descriptors/descriptors.ts'
import { readRules, type HttpRule } from './http-rule.ts'
import { JsonWriter, type Dialect, type WriteJson } from '../json/writer.ts'
import { pruneUnknown } from '../json/prune.ts'
import { createRouteTable, type RouteTable } from './route-table.ts'
import { CallError, grpc } from '../statuses.ts'

/** One annotated binding, ready to serve. */
export interface Operation {
  readonly rule: HttpRule
  /** `/package.Service/Method` */
  readonly path: string
  readonly kind: 'unary' | 'stream' | 'unsupported'
  /** Switched off by the operator. */
  readonly off: boolean
  /** The request as the encoded input message. */
  bind(sources: Sources): Uint8Array
  /** A plain JSON object as the encoded input message. */
  encode(json: JsonValue): Uint8Array
  /** An encoded output message as JSON. */
  write(message: Uint8Array): string
}

/** What is served: every binding, and how its path is found. */
export interface Operations {
  readonly registry: FileRegistry
  readonly table: RouteTable<Operation>
  readonly all: readonly Operation[]
  /** Changes with the descriptors and with how answers are rendered. */
  readonly fingerprint: string
  /** What the annotations share as their first segment; empty when they share none. */
  readonly commonPrefix: string
  /** Whether the description of what is served is found at this path. */
  isDocument(path: string, currentPrefix: string): boolean
  /** What the operator should know, a sentence each. */
  readonly notes: readonly string[]
}

/** How operations are compiled. */
export interface OperationOptions {
  readonly dialect: Dialect
  readonly decimals: boolean
  readonly strictQuery: boolean
  /** Names of services or of methods, as `package.Service` or `package.Service/Method`. */
  readonly off: readonly string[]
}

/** Compiles descriptors into everything that a request only needs to look up. */
export function compileOperations(
  files: readonly FileDescriptorProto[],
  { dialect, decimals, strictQuery, off }: OperationOptions,
): Operations {
  const registry = registryOf(files)
  const { rules, faults, bare } = readRules(registry)
  if (rules.length === 0)
    throw new RuntimeError(
      'UPSTREAM_FAILED',
      bare.length > 0
        ? `None of the services ${bare.join(', ')} has a google.api.http annotation.`
        : 'The descriptors have no services.',
      {
        hint: 'Some reflection servers drop the options: give the descriptors as a file, in GATEWAY_DESCRIPTORS.',
      },
    )
  const notes = [...faults]
  if (bare.length > 0)
    notes.push(
      `${bare.join(', ')}: no method has a google.api.http annotation (some reflection servers drop them)`,
    )
  const writer = new JsonWriter({ dialect, decimals, registry })
  const all = rules.flatMap((rule) => {
    try {
      return [operationOf(rule)]
    } catch (thrown) {
      if (!(thrown instanceof RuntimeError)) throw thrown
      notes.push(thrown.message)
      return []
    }
  })

  function operationOf(rule: HttpRule): Operation {
    const { method, responseBody } = rule
    const bind = compileBinding(rule, { registry, strictQuery })
    const field = method.output.fields.find(({ name }) => name === responseBody)
    const write = field === undefined ? writer.writerOf(method.output) : writer.fieldWriterOf(field)
    const service = method.parent.typeName
    return {
      rule,
      path: `/${service}/${method.name}`,
      kind: kindOf(method),
      off: off.includes(service) || off.includes(`${service}/${method.name}`),
      bind: (sources) => toBinary(method.input, bind(sources)),
      encode: (json) =>
        toBinary(
          method.input,
          parse(method.input, pruneUnknown(method.input, json, registry), registry),
        ),
      write: (bytes) => written(method, write, bytes),
    }
  }

  const table = createRouteTable(
    all.map((value) => ({ verb: value.rule.verb, template: value.rule.template, value })),
  )
  const firsts = new Set(rules.map(firstWord))
  const [only] = firsts
  const commonPrefix = firsts.size === 1 && only !== undefined ? only : ''
  return {
    registry,
    table,
    all,
    fingerprint: fingerprintOf(files, `${dialect} ${decimals}`),
    commonPrefix,
    isDocument: (path, current) =>
      path.endsWith(documentTail) &&
      (current === ''
        ? firsts.has(path.slice(1, -documentTail.length))
        : path === `${current}${documentTail}`),
    notes: [...notes, ...table.conflicts],
  }
}

function kindOf({ methodKind }: DescMethod): Operation['kind'] {
  if (methodKind === 'unary') return 'unary'
  return methodKind === 'server_streaming' ? 'stream' : 'unsupported'
}

function written({ output }: DescMethod, write: WriteJson, bytes: Uint8Array): string {
  let message: Message
  try {
    message = fromBinary(output, bytes)
  } catch (cause) {
    throw unusable(`The upstream sent no ${output.typeName}.`, cause)
  }
  try {
    return write(message)
  } catch (cause) {
    // A Timestamp of the year 20000, a Value without a value: well-known types have bounds.
    throw unusable(`The upstream sent a ${output.typeName} that JSON cannot say.`, cause)
  }
}

const unusable = (message: string, cause: unknown) =>
  new CallError(grpc.internal, message, { status: 502, cause })

const documentTail = '/openapi.json'

/** The literal that a path begins with; undefined where it begins with a variable. */
function firstWord({ template }: HttpRule): string | undefined {
  const [first] = template.parts
  return typeof first === 'object' ? first.literal : undefined
}

/** Two replicas with the same descriptors agree on it, whatever order the files came in. */
function fingerprintOf(files: readonly FileDescriptorProto[], rendering: string): string {
  const hash = createHash('sha256').update(rendering)
  for (const file of files.toSorted((a, b) => (a.name < b.name ? -1 : 1)))
    hash.update(toBinary(FileDescriptorProtoSchema, file))
  return hash.digest('base64url').slice(0, 12)
}
