import { create, fromBinary } from '@bufbuild/protobuf'
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { FileDescriptorProtoSchema, type FileDescriptorProto } from '@bufbuild/protobuf/wkt'
import { bundledFiles } from './bundled-files.ts'
import { CallError, grpc } from '../statuses.ts'
import type { Transport } from '../upstream/transport.ts'

const versions = ['grpc.reflection.v1', 'grpc.reflection.v1alpha']
/** The field numbers of ServerReflectionRequest and ServerReflectionResponse, which are the same in both versions. */
const ask = { fileByName: 3, fileWithSymbol: 4, listServices: 7 }
const answer = { files: 4, services: 6, error: 7 }

/** Asks a server for the descriptors of all its services: by v1 first, then by v1alpha for older servers. */
export async function reflect(
  transport: Transport,
  deadlineMs: number,
): Promise<FileDescriptorProto[]> {
  for (const version of versions)
    try {
      return await reflectBy(version, transport, deadlineMs)
    } catch (thrown) {
      if (!(thrown instanceof CallError) || thrown.code !== grpc.unimplemented) throw thrown
    }
  throw new CallError(grpc.unimplemented, 'The upstream does not serve reflection.')
}

async function reflectBy(
  version: string,
  transport: Transport,
  deadlineMs: number,
): Promise<FileDescriptorProto[]> {
  const path = `/${version}.ServerReflection/ServerReflectionInfo`
  async function* responses(requests: readonly Uint8Array[]) {
    const { messages } = transport.serverStream({
      path,
      messages: requests,
      metadata: {},
      deadlineMs,
      isSafe: true,
    })
    for await (const message of messages) yield readResponse(message)
  }

  const names: string[] = []
  for await (const { services } of responses([request(ask.listServices, '*')]))
    names.push(...services)

  const files = new Map<string, FileDescriptorProto>()
  const keep = (found: readonly Uint8Array[]) => {
    for (const bytes of found) {
      const file = fromBinary(FileDescriptorProtoSchema, bytes)
      files.set(file.name, file)
    }
  }
  const wanted = names.filter((name) => !name.startsWith('grpc.reflection.'))
  for await (const response of responses(wanted.map((name) => request(ask.fileWithSymbol, name))))
    keep(response.files)

  // The loop asks by name for imports that the server has not sent yet, until every import was asked for once.
  const asked = new Set<string>()
  for (;;) {
    const missing = [...files.values()]
      .flatMap(({ dependency }) => dependency)
      .filter((name) => !files.has(name) && !asked.has(name))
    if (missing.length === 0) return fillGaps(files)
    const unique = [...new Set(missing)]
    for (const name of unique) asked.add(name)
    for await (const response of responses(unique.map((name) => request(ask.fileByName, name))))
      keep(response.files)
  }
}

/** Replaces files that nobody has by empty ones, which is right if they held only options; a missing type fails later. */
function fillGaps(files: Map<string, FileDescriptorProto>): FileDescriptorProto[] {
  const gaps = [...files.values()]
    .flatMap(({ dependency }) => dependency)
    .filter((name) => !files.has(name) && !bundledFiles.has(name))
  return [
    ...[...new Set(gaps)].map((name) =>
      create(FileDescriptorProtoSchema, { name, syntax: 'proto3' }),
    ),
    ...files.values(),
  ]
}

function request(field: number, text: string): Uint8Array {
  return new BinaryWriter().tag(field, WireType.LengthDelimited).string(text).finish()
}

interface Response {
  readonly files: readonly Uint8Array[]
  readonly services: readonly string[]
}

function readResponse(bytes: Uint8Array): Response {
  const parts = fields(bytes)
  const one = (no: number) => parts.find((part) => part.no === no)?.bytes
  const nested = (no: number) => fields(one(no) ?? new Uint8Array())
  // An error about one symbol means that the server does not know the symbol; the answers about other symbols still count.
  if (one(answer.error)) return { files: [], services: [] }
  return {
    files: nested(answer.files).flatMap(({ no, bytes }) => (no === 1 ? [bytes] : [])),
    services: nested(answer.services).flatMap(({ no, bytes }) => {
      const name = no === 1 ? fields(bytes).find((part) => part.no === 1) : undefined
      return name ? [new TextDecoder().decode(name.bytes)] : []
    }),
  }
}

/** The length-delimited fields of a message. */
function fields(bytes: Uint8Array): { no: number; bytes: Uint8Array }[] {
  const reader = new BinaryReader(bytes)
  const found: { no: number; bytes: Uint8Array }[] = []
  while (reader.pos < reader.len) {
    const [no, type] = reader.tag()
    if (type === WireType.LengthDelimited) found.push({ no, bytes: reader.bytes() })
    else reader.skip(type, no)
  }
  return found
}
