import { readFileSync } from 'node:fs'
import {
  create,
  fromBinary,
  fromJson,
  toBinary,
  type JsonObject,
  type JsonValue,
  type Message,
} from '@bufbuild/protobuf'
import type { FileDescriptorProto } from '@bufbuild/protobuf/wkt'
import * as grpc from '@grpc/grpc-js'
import {
  readDescriptorSet,
  registryOf,
} from '../../plugins/query-gateway/descriptors/descriptors.ts'
import { addReflection } from './reflection.ts'

/** A call as a handler of the ledger sees it: a message as an object, and what came along. */
export interface LedgerCall {
  readonly request: any // any: the descriptors are only known at run time
  readonly metadata: grpc.Metadata
  readonly call:
    grpc.ServerUnaryCall<Message, Message> | grpc.ServerWritableStream<Message, Message>
}
export type Handler = (call: LedgerCall) => JsonValue | Promise<JsonValue>
export type StreamHandler = (call: LedgerCall) => AsyncIterable<JsonObject> | Iterable<JsonObject>

export interface LedgerOptions {
  readonly port?: number
  /** By service and method, `ClaimsQuery.Claims`; null takes it away, as if it were not compiled in. */
  readonly handlers?: Readonly<Record<string, Handler | null>>
  readonly streams?: Readonly<Record<string, StreamHandler>>
  readonly reflection?: 'v1' | 'v1alpha'
  readonly credentials?: grpc.ServerCredentials
  /** What reflection tells instead of all, an older ledger's descriptors, say; read anew for each question. */
  readonly reflected?: readonly FileDescriptorProto[]
}

export interface Ledger {
  /** host:port */
  readonly address: string
  /** How many calls came in, by method. */
  readonly calls: Readonly<Record<string, number>>
  close(): Promise<void>
}

/** The descriptors of the ledger, as GATEWAY_DESCRIPTORS takes them. */
export const descriptorFile = new URL('ledger.binpb', import.meta.url).pathname

const entity = (id: string): JsonObject => ({
  id,
  type: 'asset/cookstove',
  status: 'STATUS_ACTIVE',
  start_date: '2026-01-01T00:00:00Z',
  context: ['https://w3id.org/cookstove'],
  metadata: { model: 'SuperStove 3' },
  version: '18446744073709551615',
})
const known = ['did:x:entity:1', 'did:x:entity:2', 'stove/7']
const claims = Array.from({ length: 5 }, (_, index) => ({
  claim_id: `claim-${index + 1}`,
  agent_did: index % 2 ? 'did:x:agent:2' : 'did:x:agent:1',
  amount: String((index + 1) * 1000),
}))

const answers: Record<string, Handler> = {
  'EntityQuery.Params': () => ({ nft_contract_address: 'contract1', create_enabled: true }),
  'EntityQuery.Entity': ({ request: { id } }) => {
    if (!known.includes(id)) throw notFound(`no entity ${id}`)
    return { entity: entity(id) }
  },
  'EntityQuery.ByStatus': ({ request: { status } }) => ({
    entities: status === 1 ? known.map(entity) : [],
  }),
  'ClaimsQuery.Claims': ({ request: { pagination, agentDid } }) => {
    const all = claims.filter((claim) => agentDid === '' || claim.agent_did === agentDid)
    const key = Buffer.from(pagination?.key ?? []).toString()
    const from = key === '' ? Number(pagination?.offset ?? 0) : Number(key.replace(/\D/g, ''))
    const to = Math.min(from + (Number(pagination?.limit ?? 0) || all.length), all.length)
    // The bytes are chosen so that their base64 has both characters that a URL spells differently.
    const next = to < all.length ? Buffer.from(`?~>?${to}`).toString('base64') : ''
    return {
      claims: all.slice(from, to),
      pagination: { next_key: next, total: pagination?.countTotal ? String(all.length) : '0' },
    }
  },
  'TokenQuery.Params': () => ({ contract_code: '7', max_supply: '9007199254740993' }),
  'TokenQuery.Simulate': ({ request: { tx, denom } }) => ({
    gas_used: String(tx?.gas ?? 0n),
    memo: tx?.memo ?? '',
    denom,
  }),
}
const flows: Record<string, StreamHandler> = { 'ClaimsQuery.Watch': () => claims }

function notFound(details: string) {
  return Object.assign(new Error(details), { code: grpc.status.NOT_FOUND, details })
}

/** Starts a real gRPC server with entities, claims and tokens, all in memory. */
export async function startLedger(options: LedgerOptions = {}): Promise<Ledger> {
  const files = readDescriptorSet(readFileSync(descriptorFile))
  const server = new grpc.Server()
  const calls: Record<string, number> = {}
  serveFiles(
    server,
    files,
    { ...answers, ...options.handlers },
    { ...flows, ...options.streams },
    calls,
  )
  if (options.reflection) addReflection(server, options.reflection, options.reflected ?? files)
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync(
      `127.0.0.1:${options.port ?? 0}`,
      options.credentials ?? grpc.ServerCredentials.createInsecure(),
      (error, port) => (error ? reject(error) : resolve(port)),
    ),
  )
  return {
    address: `127.0.0.1:${port}`,
    calls,
    close: () =>
      new Promise((resolve) => {
        server.forceShutdown()
        server.tryShutdown(() => resolve())
      }),
  }
}

/** Serves the methods that have a handler; whatever else the files declare is unimplemented. */
export function serveFiles(
  server: grpc.Server,
  files: readonly FileDescriptorProto[],
  handlers: Readonly<Record<string, Handler | null>>,
  streams: Readonly<Record<string, StreamHandler>>,
  calls: Record<string, number> = {},
): void {
  const registry = registryOf(files)
  for (const service of registry) {
    if (service.kind !== 'service') continue
    const definition: Record<string, grpc.MethodDefinition<Message, Message>> = {}
    const implementation: grpc.UntypedServiceImplementation = {}
    for (const { name, input, output, methodKind } of service.methods) {
      const key = `${service.name}.${name}`
      const handler = handlers[key]
      const stream = streams[key]
      if (!handler && !stream) continue
      definition[name] = {
        path: `/${service.typeName}/${name}`,
        requestStream: false,
        responseStream: methodKind === 'server_streaming',
        requestSerialize: (message) => Buffer.from(toBinary(input, message)),
        requestDeserialize: (bytes) => fromBinary(input, bytes),
        responseSerialize: (message) => Buffer.from(toBinary(output, message)),
        responseDeserialize: (bytes) => fromBinary(output, bytes),
      }
      const message = (json: JsonValue) =>
        json === null ? create(output) : fromJson(output, json, { registry })
      const seen = () => void (calls[key] = (calls[key] ?? 0) + 1)
      if (stream)
        implementation[name] = (call: grpc.ServerWritableStream<Message, Message>) => {
          seen()
          const go = async () => {
            for await (const json of stream({
              request: call.request,
              metadata: call.metadata,
              call,
            })) {
              if (call.cancelled) return
              call.write(message(json))
            }
            call.end()
          }
          go().catch((thrown: unknown) => call.emit('error', thrown))
        }
      else if (handler)
        implementation[name] = (
          call: grpc.ServerUnaryCall<Message, Message>,
          done: grpc.sendUnaryData<Message>,
        ) => {
          seen()
          Promise.resolve()
            .then(() => handler({ request: call.request, metadata: call.metadata, call }))
            .then((json) => done(null, message(json)))
            .catch((thrown: unknown) => done(thrown as grpc.ServiceError))
        }
    }
    if (Object.keys(definition).length > 0) server.addService(definition, implementation)
  }
}
