import { RuntimeError } from '#core'

/** The one way to a ledger: a unary call of its gRPC services, bytes in and bytes out. */
export interface LedgerPort {
  unary(path: string, request: Uint8Array): Promise<Uint8Array>
  close(): Promise<void>
}

/** What a ledger answered in place of a message: a status of gRPC. */
export class LedgerStatus extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** Statuses of gRPC that are answers of a ledger that works. */
export const grpc = { invalid: 3, notFound: 5, unimplemented: 12, unavailable: 14 } as const

/** The ledger does not answer, or not as a ledger does. */
export const unreachable = (what: string, cause?: unknown): RuntimeError =>
  new RuntimeError('LEDGER_UNREACHABLE', `The ledger cannot be asked just now: ${what}.`, {
    status: 503,
    hint: 'Turns within the credit go on. Try again in a moment.',
    headers: { 'Retry-After': '5' },
    cause,
  })
