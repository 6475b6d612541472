import { fromBinary } from '@bufbuild/protobuf'
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import { AnySchema, type Any } from '@bufbuild/protobuf/wkt'

/** The names that the Connect protocol gives to the statuses of gRPC from 1 on. */
const names = [
  'canceled',
  'unknown',
  'invalid_argument',
  'deadline_exceeded',
  'not_found',
  'already_exists',
  'permission_denied',
  'resource_exhausted',
  'failed_precondition',
  'aborted',
  'out_of_range',
  'unimplemented',
  'internal',
  'unavailable',
  'data_loss',
  'unauthenticated',
]

/** The name of a gRPC status in the Connect protocol. */
export const connectCode = (code: number): string => names[code - 1] ?? 'unknown'

/** A detail of a failure: the name of its type, and the encoded message in base64 without padding. */
export interface ConnectDetail {
  readonly type: string
  readonly value: string
}

/** The number of the field `details` in google.rpc.Status. */
const detailsField = 3

/** The details in an encoded google.rpc.Status. */
function anysOf(bytes: Uint8Array): Any[] {
  const reader = new BinaryReader(bytes)
  const found: Any[] = []
  while (reader.pos < reader.len) {
    const [no, type] = reader.tag()
    if (no === detailsField && type === WireType.LengthDelimited)
      found.push(fromBinary(AnySchema, reader.bytes()))
    else reader.skip(type, no)
  }
  return found
}

/** The details in an encoded google.rpc.Status, without those that hold what `isSecret` finds. */
export function connectDetails(
  bytes: Uint8Array,
  isSecret: (text: string) => boolean,
): ConnectDetail[] {
  try {
    return anysOf(bytes)
      .filter(({ value }) => !isSecret(Buffer.from(value).toString('latin1')))
      .map(({ typeUrl, value }) => ({
        type: typeUrl.slice(typeUrl.lastIndexOf('/') + 1),
        value: Buffer.from(value).toString('base64').replace(/=+$/, ''),
      }))
  } catch {
    // Details that are no google.rpc.Status cannot be read, so the answer leaves them out.
    return []
  }
}
