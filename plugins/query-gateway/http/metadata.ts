import type { IncomingHttpHeaders } from 'node:http'
import { CallError, grpc } from '../statuses.ts'
import type { Metadata } from '../upstream/transport.ts'

const heightHeader = 'x-cosmos-block-height'
const passed = ['authorization', 'traceparent', 'tracestate']
/** How headers begin that are metadata of the call. */
export const metadataPrefix = 'grpc-metadata-'
/** What a client must not set: it belongs to the protocol or to the connection. */
const reserved =
  /^(:|grpc-|te$|host$|connection$|content-|transfer-encoding$|user-agent$|upgrade$|keep-alive$|proxy-)/
/** What authenticates at this server or at a proxy, and is no business of the upstream's under any value. */
const kept = /^(x-auth-type|x-ucan-delegation|cookie|cookie2|set-cookie)$/
const longestDeadlineMs = 24 * 60 * 60 * 1000

/** Whether a value is a credential for this server or its gate, which stays here. */
export type IsSecret = (name: string, value: string) => boolean

/**
 * The metadata of the call that a request makes: what the lists above let through. An Authorization that came with
 * X-Auth-Type is for this server, whatever it says.
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
      if (key !== '' && !reserved.test(key) && !kept.test(key)) pass(key, String(headers[name]))
    }
  for (const name of passed) {
    const value = headers[name]
    const isForHere = name === 'authorization' && headers['x-auth-type'] !== undefined
    if (value !== undefined && !isForHere) pass(name, String(value))
  }
  const height = headers[heightHeader]
  if (height !== undefined) {
    if (!/^\d{1,19}$/.test(String(height)))
      throw new CallError(
        grpc.invalidArgument,
        `${heightHeader} is "${String(height)}", which is no block height.`,
      )
    metadata[heightHeader] = String(height)
  }
  return metadata
}

/** What the upstream would read in binary metadata, of which several come with commas between. */
const decoded = (value: string) =>
  value
    .split(',')
    .map((one) => Buffer.from(one, 'base64').toString('latin1'))
    .join(' ')

/** What makes two calls the same: not that each is traced for itself. */
export function withoutTrace(metadata: Record<string, string>): Record<string, string> {
  const { traceparent: _, tracestate: __, ...rest } = metadata
  return rest
}

/** The height that a request is pinned to. Zero means the latest, which is no pin. */
export function pinnedHeight(metadata: Record<string, string>): string | undefined {
  const height = metadata[heightHeader]
  return height === undefined || /^0+$/.test(height) ? undefined : height
}

/** The headers of an answer, from what the upstream sent along. */
export function headersFrom(metadata: Metadata): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const name of Object.keys(metadata)) {
    const value = metadata[name]
    if (value === undefined) continue
    if (name === heightHeader) headers[heightHeader] = String(value)
    else if (!reserved.test(name) && name !== 'date' && name !== 'server')
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

/** The client may shorten the deadline, never lengthen it. Without either there is none. */
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
