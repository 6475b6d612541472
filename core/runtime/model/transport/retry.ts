import { RuntimeError } from '../../../errors.ts'

/** When the provider asks for a longer wait than this, the call fails and its caller decides. */
const longestWaitMs = 20_000

/** The faults of a model that may pass in a moment. */
const passing: ReadonlySet<string> = new Set([
  'MODEL_RATE_LIMITED',
  'MODEL_OVERLOADED',
  'MODEL_FAILED',
  'MODEL_STREAM_BROKEN',
  'MODEL_TIMEOUT',
  'MODEL_UNREACHABLE',
])

/** Whether a fault of a model may pass in a moment. */
export function mayPass(error: RuntimeError): boolean {
  return passing.has(error.code)
}

/** How long to wait before the next attempt; undefined when another attempt would not help. */
export function waitBefore(attempt: number, error: unknown): number | undefined {
  if (!(error instanceof RuntimeError) || !mayPass(error)) return undefined
  const { retryAfterSeconds, reason } = (error.details ?? {}) as {
    retryAfterSeconds?: number
    reason?: string
  }
  if (error.code === 'MODEL_UNREACHABLE' && permanent.test(reason ?? '')) return undefined
  if (retryAfterSeconds !== undefined) {
    const ms = retryAfterSeconds * 1000
    return ms > longestWaitMs ? undefined : ms
  }
  // Half of the wait is random, so that callers that failed together do not come back together.
  return 500 * 2 ** (attempt - 1) * (0.5 + Math.random() / 2)
}

/** Reasons that do not pass in a moment: a host name without an address, a certificate that is not valid. */
const permanent = /ENOTFOUND|CERT|SELF_SIGNED|UNABLE_TO|ERR_TLS|ERR_INVALID|EPROTO/
