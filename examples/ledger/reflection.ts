import { toBinary } from '@bufbuild/protobuf'
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { FileDescriptorProtoSchema, type FileDescriptorProto } from '@bufbuild/protobuf/wkt'
import type { Server, ServerDuplexStream } from '@grpc/grpc-js'

/** Server reflection over these files, in one of its two versions. */
export function addReflection(
  server: Server,
  version: 'v1' | 'v1alpha',
  files: readonly FileDescriptorProto[],
): void {
  const same = (bytes: Buffer) => bytes
  const service = `grpc.reflection.${version}.ServerReflection`
  server.addService(
    {
      ServerReflectionInfo: {
        path: `/${service}/ServerReflectionInfo`,
        requestStream: true,
        responseStream: true,
        requestSerialize: same,
        requestDeserialize: same,
        responseSerialize: same,
        responseDeserialize: same,
      },
    },
    {
      ServerReflectionInfo(call: ServerDuplexStream<Buffer, Buffer>) {
        call.on('data', (request: Buffer) => call.write(respond(request)))
        call.on('end', () => call.end())
      },
    },
  )

  function respond(request: Buffer): Buffer {
    const { no, text } = question(request)
    if (no === 7) {
      const names = files.flatMap((file) =>
        file.service.map(({ name }) => `${file.package}.${name}`),
      )
      const list = [...names, service].map((name) => wrap(1, wrap(1, Buffer.from(name))))
      return wrap(6, Buffer.concat(list))
    }
    const found = files.find((file) =>
      no === 3
        ? file.name === text
        : file.service.some(({ name }) => `${file.package}.${name}` === text),
    )
    if (found === undefined) return wrap(7, wrap(2, Buffer.from('not found')))
    return wrap(4, wrap(1, Buffer.from(toBinary(FileDescriptorProtoSchema, found))))
  }
}

function question(request: Buffer): { no: number; text: string } {
  const reader = new BinaryReader(request)
  while (reader.pos < reader.len) {
    const [no, type] = reader.tag()
    if (type === WireType.LengthDelimited && no !== 1) return { no, text: reader.string() }
    reader.skip(type, no)
  }
  return { no: 0, text: '' }
}

const wrap = (no: number, bytes: Uint8Array): Buffer =>
  Buffer.from(new BinaryWriter().tag(no, WireType.LengthDelimited).bytes(bytes).finish())
