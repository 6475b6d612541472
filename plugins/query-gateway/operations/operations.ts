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

/** An annotated binding, compiled to serve requests. */
export interface Operation {
  readonly rule: HttpRule
  /** The path of the method in gRPC: `/package.Service/Method`. */
  readonly path: string
  readonly kind: 'unary' | 'stream' | 'unsupported'
  /** Whether the operator has switched the method off. */
  readonly off: boolean
  /** Encodes a request as the input message. */
  bind(sources: Sources): Uint8Array
  /** Encodes a plain JSON object as the input message. */
  encode(json: JsonValue): Uint8Array
  /** Writes an encoded output message as JSON. */
  write(message: Uint8Array): string
}

/** All served bindings, and the table that finds the binding of a path. */
export interface Operations {
  readonly registry: FileRegistry
  readonly table: RouteTable<Operation>
  readonly all: readonly Operation[]
  /** A hash of the descriptors and of the options by which answers are written. */
  readonly fingerprint: string
  /** The first segment that all annotations share; empty when they share none. */
  readonly commonPrefix: string
  /** Whether a path is that of the OpenAPI document, or of the page that shows it. */
  documentAt(path: string, currentPrefix: string): 'json' | 'page' | undefined
  /** Sentences for the operator, such as faults of annotations. */
  readonly notes: readonly string[]
}

/** The options for compiling operations. */
export interface OperationOptions {
  readonly dialect: Dialect
  readonly decimals: boolean
  readonly strictQuery: boolean
  /** The services and methods that are switched off, as `package.Service` or `package.Service/Method`. */
  readonly off: readonly string[]
}

/** Compiles descriptors into operations, so that a request only needs to look up its operation. */
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
      write: (bytes) => writeAnswer(method, write, bytes),
    }
  }

  const table = createRouteTable(
    all.map((value) => ({
      verb: value.rule.verb,
      template: value.rule.template,
      value,
      name: value.path.slice(1),
    })),
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
    documentAt: (path, current) =>
      documentTails.find(
        ([tail]) =>
          path.endsWith(tail) &&
          (current === '' ? firsts.has(path.slice(1, -tail.length)) : path === `${current}${tail}`),
      )?.[1],
    notes: [...notes, ...table.conflicts],
  }
}

function kindOf({ methodKind }: DescMethod): Operation['kind'] {
  if (methodKind === 'unary') return 'unary'
  return methodKind === 'server_streaming' ? 'stream' : 'unsupported'
}

/** Writes an encoded answer of a method as JSON; the error for what cannot be written is the upstream's. */
export function writeAnswer({ output }: DescMethod, write: WriteJson, bytes: Uint8Array): string {
  let message: Message
  try {
    message = fromBinary(output, bytes)
  } catch (cause) {
    throw unusable(`The upstream sent no ${output.typeName}.`, cause)
  }
  try {
    return write(message)
  } catch (cause) {
    // JSON has bounds for well-known types: a Timestamp of the year 20000 or an empty Value has no JSON.
    throw unusable(`The upstream sent a ${output.typeName} that JSON cannot say.`, cause)
  }
}

const unusable = (message: string, cause: unknown) =>
  new CallError(grpc.internal, message, { status: 502, cause })

const documentTails = [
  ['/openapi.json', 'json'],
  ['/openapi.html', 'page'],
] as const

/** The first literal of a path; undefined where the path begins with a variable. */
function firstWord({ template }: HttpRule): string | undefined {
  const [first] = template.parts
  return typeof first === 'object' ? first.literal : undefined
}

/** The fingerprint of some descriptors, which does not depend on the order of the files, so that replicas agree. */
function fingerprintOf(files: readonly FileDescriptorProto[], rendering: string): string {
  const hash = createHash('sha256').update(rendering)
  for (const file of files.toSorted((a, b) => (a.name < b.name ? -1 : 1)))
    hash.update(toBinary(FileDescriptorProtoSchema, file))
  return hash.digest('base64url').slice(0, 12)
}
