import { catalogue, type Code, type CodeEntry } from './error-codes.ts'

/** The catalogue by any code at all, also one of a plugin's own. */
const entries: Readonly<Record<string, CodeEntry | undefined>> = catalogue

/** Whether the same request may succeed later, unchanged. False for a code that is not in the catalogue. */
export function isRetryable(code: string): boolean {
  return entries[code]?.retryable === true
}

/** What an error says beside its code and its sentence. */
export interface ErrorOptions {
  /** What the reader can do next, in one sentence. */
  hint?: string
  /** Machine-readable facts for the caller. Never a secret, never an upstream's body. */
  details?: unknown
  /** HTTP status; needed only for a code that is not in the catalogue. */
  status?: number
  /** Response headers that belong to the error, such as `Retry-After`. */
  headers?: Record<string, string>
  /** What was thrown before. It stays in the log. */
  cause?: unknown
}

/** The one error class: a stable code, a sentence, a status, and the next action where there is one. */
export class RuntimeError extends Error {
  override readonly name = 'RuntimeError'
  readonly code: string
  readonly status: number
  readonly hint: string | undefined
  readonly details: unknown
  readonly headers: Record<string, string> | undefined

  constructor(code: Code | (string & {}), message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.status = options.status ?? entries[code]?.status ?? 500
    this.hint = options.hint
    this.details = options.details
    this.headers = options.headers
  }
}

/** One field that failed its schema. */
export interface Fault {
  /** Where, as a dotted path: `stratification.strata.0.weight`. Empty for the whole input. */
  readonly path: string
  readonly message: string
}
