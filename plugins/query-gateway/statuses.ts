/** The status codes of gRPC that this plugin uses. */
export const grpc = {
  ok: 0,
  cancelled: 1,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  permissionDenied: 7,
  resourceExhausted: 8,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const

const httpStatuses: readonly number[] = [
  200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401,
]

/** The HTTP status for a gRPC status; an unknown gRPC status gives 500. */
const httpStatusOf = (code: number): number => httpStatuses[code] ?? 500

/** The error of a failed call: its gRPC status, and its status and headers in HTTP. */
export class CallError extends Error {
  readonly code: number
  readonly status: number
  /** An encoded google.rpc.Status, where the upstream sent one. */
  readonly statusDetails: Uint8Array | undefined
  readonly headers: Readonly<Record<string, string>>

  constructor(
    code: number,
    message: string,
    options: {
      status?: number
      statusDetails?: Uint8Array
      headers?: Record<string, string>
      cause?: unknown
    } = {},
  ) {
    super(message, { cause: options.cause })
    this.name = 'CallError'
    this.code = code
    this.status = options.status ?? httpStatusOf(code)
    this.statusDetails = options.statusDetails
    this.headers = options.headers ?? {}
  }
}
