import type { IncomingHttpHeaders } from 'node:http'
import { CallError, grpc } from '../statuses.ts'
import type { Metadata } from '../upstream/transport.ts'

/** The two names of the block height, in requests and in answers. */
export const heightHeaders = [
  'x-cosmos-block-height',
  'grpc-metadata-x-cosmos-block-height',
] as const
const [heightHeader] = heightHeaders
const passed = ['authorization', 'traceparent', 'tracestate']
/** The prefix of headers that become metadata of the call. */
export const metadataPrefix = 'grpc-metadata-'
/** The metadata that a client must not set, because they belong to the protocol or to the connection. */
const reserved =
  /^(:|grpc-|te$|host$|connection$|content-|transfer-encoding$|user-agent$|upgrade$|keep-alive$|proxy-)/
/** Headers that authenticate at this server or at a proxy. Whatever their values, the upstream never gets them. */
const kept = /^(x-auth-type|x-ucan-delegation|cookie|cookie2|set-cookie)$/
const longestDeadlineMs = 24 * 60 * 60 * 1000

/** Whether a value is a credential for this server or its gate, which the upstream must not get. */
export type IsSecret = (name: string, value: string) => boolean

/**
 * The metadata of the call for a request: the headers that the lists above let through. An Authorization header beside
 * X-Auth-Type is for this server, whatever its value.
 */
export function metadataFrom(
  headers: IncomingHttpHeaders,
  isSecret: IsSecret,
): Record<string, string> {
  const metadata: Record<string, string> = {}
  const pass = (key: string, value: string) => {
    if (!isSecret(key, value) && !(key.endsWith('-bin') && isSecret(key, decoded(value))))
      metadata[key] = value
  }
  for (const name in headers)
    if (name.startsWith(metadataPrefix)) {
      const key = name.slice(metadataPrefix.length)
      if (key !== '' && key !== heightHeader && !reserved.test(key) && !kept.test(key))
        pass(key, String(headers[name]))
    }
  for (const name of passed) {
    const value = headers[name]
    const isForHere = name === 'authorization' && headers['x-auth-type'] !== undefined
    if (value !== undefined && !isForHere) pass(name, String(value))
  }
  const height = heightOf(headers)
  if (height !== undefined) metadata[heightHeader] = height
  return metadata
}

/** The block height that a request names, under either name; the two may not contradict each other. */
function heightOf(headers: IncomingHttpHeaders): string | undefined {
  const given = heightHeaders.flatMap((name) => {
    const value = headers[name]
    if (value === undefined) return []
    if (!/^\d{1,19}$/.test(String(value)))
      throw new CallError(
        grpc.invalidArgument,
        `${name} is "${String(value)}", which is no block height.`,
      )
    return [String(value)]
  })
  const [first, second = first] = given
  if (first !== undefined && second !== undefined && !isSameHeight(first, second))
    throw new CallError(
      grpc.invalidArgument,
      `${heightHeaders.join(' and ')} name different heights: ${first} and ${second}.`,
    )
  return first
}

/** Whether two texts are the same height: zeros may stand before it. */
export const isSameHeight = (one: string, other: string): boolean =>
  /^\d{1,19}$/.test(other) && BigInt(one) === BigInt(other)

/** The text in a binary metadata value, which may hold several values separated by commas. */
const decoded = (value: string) =>
  value
    .split(',')
    .map((one) => Buffer.from(one, 'base64').toString('latin1'))
    .join(' ')

/** The metadata without trace headers, which differ even between equal calls. */
export function withoutTrace(metadata: Record<string, string>): Record<string, string> {
  const { traceparent: _, tracestate: __, ...rest } = metadata
  return rest
}

/** The block height to which a request is pinned; undefined for 0, which means the latest block. */
export function pinnedHeight(metadata: Record<string, string>): string | undefined {
  const height = metadata[heightHeader]
  return height === undefined || /^0+$/.test(height) ? undefined : height
}

/** The headers of an answer, made from the metadata of the upstream. */
export function headersFrom(metadata: Metadata): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const name of Object.keys(metadata)) {
    const value = metadata[name]
    if (value === undefined) continue
    if (name === heightHeader) {
      headers[heightHeader] = String(value)
      headers['Grpc-Metadata-X-Cosmos-Block-Height'] = String(value)
    } else if (!reserved.test(name) && name !== 'date' && name !== 'server')
      headers[`Grpc-Metadata-${name}`] = String(value)
  }
  return headers
}

const units: Record<string, number> = {
  H: 3_600_000,
  M: 60_000,
  S: 1000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
}

/** The deadline of a call. The client may shorten the gateway's own deadline, but not lengthen it. */
export function deadlineOf(
  given: string | string[] | undefined,
  ownMs: number | undefined,
): number | undefined {
  if (given === undefined) return ownMs
  const match = /^(\d{1,8})([HMSmun])$/.exec(String(given))
  if (match === null)
    throw new CallError(
      grpc.invalidArgument,
      `Grpc-Timeout is "${String(given)}", which is no duration such as 500m or 5S.`,
    )
  const asked = Math.max(Number(match[1]) * (units[match[2] ?? ''] ?? 1), 1)
  return Math.min(asked, ownMs ?? longestDeadlineMs)
}
