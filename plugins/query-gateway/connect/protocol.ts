import type { IncomingMessage } from 'node:http'
import { jsonOf } from '../http/request-body.ts'
import type { JsonValue } from '@bufbuild/protobuf'
import { CallError, grpc } from '../statuses.ts'

/** How the messages of a call are encoded. */
export type Encoding = 'json' | 'proto'

/** The media types of a call of one message, and those of a stream. */
const unaryTypes: Readonly<Record<string, Encoding>> = {
  'application/json': 'json',
  'application/proto': 'proto',
}
const streamTypes: Readonly<Record<string, Encoding>> = {
  'application/connect+json': 'json',
  'application/connect+proto': 'proto',
}

/** The encoding of a request for one message or for a stream. Throws 415 where its media type is another. */
export function encodingOf({ headers }: IncomingMessage, isStream: boolean): Encoding {
  const types = isStream ? streamTypes : unaryTypes
  const [given = ''] = (headers['content-type'] ?? '').split(';')
  const name = given.trim().toLowerCase()
  const known = Object.hasOwn(types, name) ? types[name] : undefined
  if (known !== undefined) return known
  const taken = Object.keys(types).join(', ')
  throw new CallError(
    grpc.invalidArgument,
    `The Content-Type is "${name}"; this method takes ${taken}.`,
    { status: 415, headers: { 'Accept-Post': taken } },
  )
}

/** Whether a request says that its client speaks the Connect protocol. */
export const saysConnect = ({ headers, url = '' }: IncomingMessage): boolean =>
  headers['connect-protocol-version'] !== undefined ||
  (headers['content-type'] ?? '').startsWith('application/connect+') ||
  /[?&]connect=v1(&|$)/.test(url)

/** Refuses a version of the protocol that is not 1, and a compression, which the gateway does not undo. */
export function checkHeaders({ headers }: IncomingMessage, isStream: boolean): void {
  const version = headers['connect-protocol-version'] ?? '1'
  if (version !== '1')
    throw new CallError(
      grpc.invalidArgument,
      `Connect-Protocol-Version is "${String(version)}"; this server speaks version 1.`,
    )
  refuseCompression(headers[isStream ? 'connect-content-encoding' : 'content-encoding'])
}

function refuseCompression(given: string | string[] | undefined): void {
  if (given === undefined || given === '' || given === 'identity') return
  throw new CallError(
    grpc.unimplemented,
    `The compression "${String(given)}" is not supported; the supported one is identity.`,
  )
}

/** The deadline of a call: the client may shorten the gateway's own, but not lengthen it. */
export function timeoutOf(
  given: string | string[] | undefined,
  ownMs: number | undefined,
): number | undefined {
  if (given === undefined) return ownMs
  if (!/^\d{1,10}$/.test(String(given)))
    throw new CallError(
      grpc.invalidArgument,
      `Connect-Timeout-Ms is "${String(given)}", which is no number of at most ten digits.`,
    )
  return Math.min(Math.max(Number(given), 1), ownMs ?? longestMs)
}
const longestMs = 24 * 60 * 60 * 1000

/** A request for one message. */
export interface UnaryRequest {
  readonly encoding: Encoding
  readonly bytes: Uint8Array
}

/** Reads the request in the query of a GET. */
export function queryRequest(query: string): UnaryRequest {
  const asked = new URLSearchParams(query)
  const encoding = asked.get('encoding')
  const message = asked.get('message')
  if (asked.get('connect') !== 'v1')
    throw new CallError(grpc.invalidArgument, 'The query has no connect=v1.')
  if (encoding !== 'json' && encoding !== 'proto')
    throw new CallError(
      grpc.invalidArgument,
      `The encoding in the query is "${encoding ?? ''}"; it is json or proto.`,
      { status: 415 },
    )
  if (message === null) throw new CallError(grpc.invalidArgument, 'The query has no message.')
  refuseCompression(asked.get('compression') ?? undefined)
  const isBase64 = asked.get('base64') === '1'
  if (isBase64 && !/^[\w+/-]*={0,2}$/.test(message))
    throw new CallError(grpc.invalidArgument, 'The message in the query is not base64.')
  return { encoding, bytes: Buffer.from(message, isBase64 ? 'base64' : 'utf8') }
}

/** The bytes of a message as JSON; no bytes are a message without fields. */
export const messageJson = (bytes: Uint8Array): JsonValue =>
  bytes.length === 0 ? {} : jsonOf(bytes)

const headBytes = 5
const [compressed, endOfStream] = [1, 2]

/** The single message in the body of a request for a stream. */
export function opened(body: Buffer): Uint8Array {
  const malformed = (why: string) =>
    new CallError(grpc.invalidArgument, `The body is not one message in an envelope: ${why}.`)
  if (body.length < headBytes) throw malformed(`it has ${body.length} bytes`)
  const flags = body.readUInt8(0)
  if (flags === compressed) throw malformed('it is compressed, and nothing says how')
  if (flags !== 0) throw malformed(`its flags are ${flags}`)
  const length = body.readUInt32BE(1)
  if (body.length - headBytes !== length)
    throw malformed(`it names ${length} bytes, and ${body.length - headBytes} follow`)
  return body.subarray(headBytes)
}

function enveloped(flags: number, content: Uint8Array): Buffer {
  const head = Buffer.alloc(headBytes)
  head.writeUInt8(flags, 0)
  head.writeUInt32BE(content.length, 1)
  return Buffer.concat([head, content])
}

/** A message of a stream in its envelope. */
export const inEnvelope = (content: Uint8Array): Buffer => enveloped(0, content)

/** The end of a stream, with the failure as JSON where it has failed. */
export const ending = (failure?: string): Buffer =>
  enveloped(endOfStream, Buffer.from(failure === undefined ? '{}' : `{"error":${failure}}`))
