import {
  fromBinary,
  toBinary,
  type DescMethod,
  type FileRegistry,
  type JsonValue,
  type Message,
} from '@bufbuild/protobuf'
import type { FileDescriptorProto } from '@bufbuild/protobuf/wkt'
import { createHash } from 'node:crypto'
import { RuntimeError } from '#core'
import { compileBinding, parse, type Sources } from './bind.ts'
import { registryOf } from './descriptors.ts'
import { readRules, type HttpRule } from './http-rule.ts'
import { createJsonWriter, type Dialect } from './json-writer.ts'
import { pruneUnknown } from './prune.ts'
import { createRouteTable, type RouteTable } from './route-table.ts'
import { CallError, grpc } from './statuses.ts'

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

export interface Operations {
  readonly registry: FileRegistry
  readonly table: RouteTable<Operation>
  readonly all: readonly Operation[]
  /** Changes with the descriptors and with how answers are rendered. */
  readonly fingerprint: string
  /** What the annotations share as their first segment; empty when they share none. */
  readonly commonPrefix: string
  /** What the operator should know, a sentence each. */
  readonly notes: readonly string[]
}

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
  const writerOf = createJsonWriter({ dialect, decimals, registry })
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
    const whole = writerOf(method.output)
    const write = (message: Message) =>
      responseBody === ''
        ? whole(message)
        : onlyField(whole(message), method, responseBody, dialect)
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
      write: (bytes) => write(decode(method, bytes)),
    }
  }

  const table = createRouteTable(
    all.map((value) => ({ verb: value.rule.verb, template: value.rule.template, value })),
  )
  return {
    registry,
    table,
    all,
    fingerprint: fingerprintOf(all, `${dialect} ${decimals}`),
    commonPrefix: commonFirst(rules),
    notes: [...notes, ...table.conflicts],
  }
}

function kindOf({ methodKind }: DescMethod): Operation['kind'] {
  if (methodKind === 'unary') return 'unary'
  return methodKind === 'server_streaming' ? 'stream' : 'unsupported'
}

function decode({ output }: DescMethod, bytes: Uint8Array): Message {
  try {
    return fromBinary(output, bytes)
  } catch (cause) {
    throw new CallError(grpc.internal, `The upstream sent no ${output.typeName}.`, {
      status: 502,
      cause,
    })
  }
}

function onlyField(json: string, { output }: DescMethod, name: string, dialect: Dialect): string {
  const key =
    dialect === 'proto3' ? output.fields.find((field) => field.name === name)?.jsonName : name
  const whole = JSON.parse(json) as Record<string, unknown>
  return JSON.stringify(whole[key ?? name] ?? null)
}

function commonFirst(rules: readonly HttpRule[]): string {
  const firsts = new Set(
    rules.map(({ template }) => {
      const [first] = template.parts
      return typeof first === 'object' ? first.literal : ''
    }),
  )
  const [only] = firsts
  return firsts.size === 1 && only !== undefined ? only : ''
}

/** Two replicas with the same descriptors agree on it, whatever order the files came in. */
function fingerprintOf(all: readonly Operation[], rendering: string): string {
  const hash = createHash('sha256').update(rendering)
  const lines = all.map(({ path, rule: { verb, template, method } }) => {
    const fields = method.output.fields.map(({ name, number }) => `${name}=${number}`)
    return `${path} ${verb} ${template.text} ${fields.join()}`
  })
  for (const line of lines.sort()) hash.update(line)
  return hash.digest('base64url').slice(0, 12)
}
