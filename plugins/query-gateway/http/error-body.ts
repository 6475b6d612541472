import { fromBinary, type Registry } from '@bufbuild/protobuf'
import { RuntimeError } from '#core'
import { bundledRegistry } from '../descriptors/descriptors.ts'
import { JsonWriter, type Dialect } from '../json/writer.ts'
import { connectCode, connectDetails } from '../connect/errors.ts'
import { CallError, grpc } from '../statuses.ts'

/** The answer to a client for a failure. */
export interface ErrorAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

const statusDesc = bundledRegistry.getMessage('google.rpc.Status')!

/** An IPv4 address, and an IPv6 address in brackets, each with its port where one follows. */
const ipv4 = String.raw`\b\d{1,3}(\.\d{1,3}){3}\b(:\d+)?`
const ipv6 = String.raw`\[[0-9a-f]{0,4}:[0-9a-f:.]{0,40}:[0-9a-f:.]{0,40}(%[\w.-]{1,40})?\](:\d+)?`

/** How a failure is written: in a dialect, or as a client of the Connect protocol reads failures. */
export type ErrorForm = Dialect | 'connect'

/** Makes a function that renders failures as `{ code, message, details }` and hides every address of an upstream. */
export function createErrorBody(upstreams: readonly string[]) {
  // Whole addresses first: of a host that comes first the port would stay.
  const hidden = [...upstreams.map(escape), ...upstreams.flatMap(hostOf)]
  const addresses = new RegExp(`${hidden.join('|')}|${ipv4}|${ipv6}`, 'gi')
  const hide = (text: string) => text.replace(addresses, 'upstream')

  return (thrown: unknown, registry: Registry, form: ErrorForm): ErrorAnswer | undefined => {
    const error = asCallError(thrown)
    if (error === undefined) return undefined
    const { code, status, headers, statusDetails } = error
    const said =
      form === 'connect'
        ? {
            code: connectCode(code),
            message: hide(error.message),
            details: statusDetails ? connectDetails(statusDetails, holdsAddress) : [],
          }
        : {
            code,
            message: hide(error.message),
            details: statusDetails ? detailsOf(statusDetails, registry, form) : [],
          }
    return { status, headers, body: JSON.stringify(said) }
  }

  function holdsAddress(text: string): boolean {
    addresses.lastIndex = 0
    return addresses.test(text)
  }

  function detailsOf(bytes: Uint8Array, registry: Registry, dialect: Dialect): unknown {
    try {
      const writer = new JsonWriter({ dialect, registry, decimals: false })
      const text = writer.writerOf(statusDesc)(fromBinary(statusDesc, bytes))
      const hidden = JSON.parse(text, (_, value: unknown) =>
        typeof value === 'string' ? hide(value) : value,
      ) as { details?: unknown }
      return hidden.details ?? []
    } catch {
      // Details that are no google.rpc.Status cannot be rendered, so the answer leaves them out.
      return []
    }
  }
}

/** The pattern of an upstream's host alone. */
function hostOf(upstream: string): string[] {
  const host = upstream.replace(/:\d+$/, '')
  // A host that is one plain word may be a word of any sentence, so only the host with its port is hidden.
  return /^[a-z]+$/i.test(host) && host !== 'localhost' ? [] : [`\\b${escape(host)}\\b`]
}

const escape = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')

/** The call error for a failure; undefined for faults of this server, whose messages callers must not read. */
function asCallError(thrown: unknown): CallError | undefined {
  if (thrown instanceof CallError) return thrown
  if (!(thrown instanceof RuntimeError) || thrown.status >= 500) return undefined
  return new CallError(
    thrown.status === 413 ? grpc.resourceExhausted : grpc.invalidArgument,
    thrown.message,
    { status: thrown.status },
  )
}
