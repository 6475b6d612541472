import type { IncomingMessage } from 'node:http'
import { RuntimeError } from '../errors.ts'
import type { Resolve } from '../runtime/outbound/guard.ts'
import { requestOutside } from '../runtime/outbound/request.ts'
import { fieldsIn } from '../runtime/base/fields.ts'
import { wholeJson } from '../runtime/base/safe-json.ts'
import { retryAfterOf } from './retry-after.ts'
import { keyOf, type Secret } from './secret.ts'
import { signatureOf } from './signature.ts'

/** What goes along with a webhook. */
export interface DeliverOptions {
  /** The id of the webhook, the same in every attempt: the receiver knows a repeat by it. A job has its `job.key`. */
  readonly id: string
  /** The key that the receiver was given: `whsec_` and base64, any other text as it stands, or bytes. */
  readonly secret: Secret
  /** More headers. Those of the signature and of the connection are not yours to set. */
  readonly headers?: Readonly<Record<string, string>>
  /** Ends the attempt. `deliver` then rejects with the signal's reason. */
  readonly signal?: AbortSignal
}

/** That the receiver has taken a webhook. */
export interface Delivered {
  /** The status of the answer: one of 200 to 299. */
  readonly status: number
}

/** What a test has in place of the network and the clock. */
export interface DeliveryTerms {
  /** How long an attempt may take: the name, the connection and the head of the answer together. */
  readonly withinMs: number
  /** How names become addresses. */
  readonly resolve?: Resolve
}

/** The longest body that is sent. */
const mostBytes = 1024 * 1024
/** How many bytes of an answer's body are read, and for how long. */
const mostAnswerBytes = 64 * 1024
const endingMs = 1000
/** Answers that say "not now": whoever sends the same again may be heard. */
const passing: ReadonlySet<number> = new Set([408, 409, 425, 429])

/**
 * Sends a webhook, signed as Standard Webhooks has it, and resolves when the receiver has answered with 2xx. A text and
 * bytes are sent as they are, anything else as JSON. One call is one attempt of ten seconds at most, without redirects.
 *
 * `deliver` throws `DELIVERY_FAILED` and `DELIVERY_TIMEOUT` where another attempt may succeed, with the receiver's `Retry-After`,
 * and `DELIVERY_REFUSED` or `ADDRESS_REFUSED` where none will. A job that lets these pass backs off, or ends as dead.
 */
export function deliver(
  url: string | URL,
  body: unknown,
  options: DeliverOptions,
): Promise<Delivered> {
  return attempt(url, body, options, { withinMs: 10_000 })
}

/** One attempt, on the terms of a test or on those of `deliver`. */
export async function attempt(
  url: string | URL,
  body: unknown,
  { id, secret, headers, signal }: DeliverOptions,
  { withinMs, resolve }: DeliveryTerms,
): Promise<Delivered> {
  signal?.throwIfAborted()
  const target = readUrl(url)
  const content = contentOf(body)
  const signed = { ...ownHeaders(headers), ...signatureHeaders(id, content, secret) }
  const giveUp = new AbortController()
  const pass = () => giveUp.abort(signal?.reason)
  signal?.addEventListener('abort', pass)
  const timer = setTimeout(() => giveUp.abort(tooSlow(target.host, withinMs)), withinMs)
  try {
    const answer = await requestOutside(target, {
      method: 'POST',
      headers: { ...signed, 'content-length': Buffer.byteLength(content) },
      body: content,
      signal: giveUp.signal,
      resolve,
    })
    const { statusCode: status = 0 } = answer
    letGo(answer)
    if (status < 200 || status > 299)
      throw refusal(target.host, status, retryAfterOf(answer.headers))
    return { status }
  } catch (error) {
    if (giveUp.signal.aborted) throw giveUp.signal.reason
    throw error instanceof RuntimeError ? error : unreachable(target.host, error)
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', pass)
  }
}

function readUrl(url: string | URL): URL {
  if (url instanceof URL) return url
  if (URL.canParse(url)) return new URL(url)
  throw invalid('The address to deliver to is no URL.') // it may hold a secret, so it is not repeated
}

function contentOf(body: unknown): string | Uint8Array {
  const content = typeof body === 'string' || body instanceof Uint8Array ? body : asJson(body)
  const bytes = Buffer.byteLength(content)
  if (bytes <= mostBytes) return content
  throw new RuntimeError(
    'BODY_TOO_LARGE',
    `A webhook of ${bytes} bytes is not sent: the most is ${mostBytes}.`,
    { hint: 'Send an address where the receiver can fetch the rest.' },
  )
}

function asJson(body: unknown): string {
  try {
    const text: string | undefined = JSON.stringify(body)
    if (text !== undefined) return wholeJson(text)
  } catch (cause) {
    throw invalid('The body of the webhook cannot be written as JSON.', cause)
  }
  throw invalid('A webhook needs a body: a text, bytes, or what JSON can hold.')
}

/** Headers that are made here, or that say how the connection is used. */
const reserved = new Set([
  'webhook-id',
  'webhook-timestamp',
  'webhook-signature',
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'upgrade',
  'expect',
  'te',
  'trailer',
  'cookie',
])

function ownHeaders(given: Readonly<Record<string, string>> = {}): Record<string, string> {
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    'user-agent': 'oracle-runtime',
  }
  for (const [name, value] of Object.entries(given)) {
    const lower = name.toLowerCase()
    if (reserved.has(lower) || lower.startsWith('proxy-'))
      throw invalid(`The header "${name}" of a webhook is not yours to set.`)
    if (!/^[a-z0-9!#$%&'*+.^_`|~-]+$/.test(lower) || !/^[\t\x20-\x7e]*$/.test(value))
      throw invalid(
        `The header ${JSON.stringify(name)} of a webhook holds what a header cannot hold.`,
      )
    headers[lower] = value
  }
  return headers
}

function signatureHeaders(id: string, body: string | Uint8Array, secret: Secret) {
  // A full stop would let the same signature be read as another id with another time.
  if (typeof id !== 'string' || !/^[\x21-\x2d\x2f-\x7e]{1,256}$/.test(id))
    throw invalid(
      'The id of a webhook has 1 to 256 ASCII characters, without spaces and full stops.',
    )
  const key = keyOf(secret)
  if (!key) throw invalid('The secret of the webhook is empty, or is no base64 after "whsec_".')
  const timestamp = String(Math.floor(Date.now() / 1000))
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatureOf({ id, timestamp, body }, key),
  }
}

/** Reads the body of an answer and drops it, so that the receiver can finish its answer; cuts a long or slow body off. */
function letGo(answer: IncomingMessage): void {
  let bytes = 0
  const timer = setTimeout(() => answer.destroy(), endingMs).unref()
  answer.once('close', () => clearTimeout(timer))
  answer.on('data', (piece: Buffer) => {
    bytes += piece.length
    if (bytes > mostAnswerBytes) answer.destroy()
  })
}

function refusal(host: string, status: number, retryAfter: number | undefined): RuntimeError {
  const isFinal = status >= 400 && status < 500 && !passing.has(status)
  const isRedirect = status >= 300 && status < 400
  return new RuntimeError(
    isFinal ? 'DELIVERY_REFUSED' : 'DELIVERY_FAILED',
    `${host} answered the webhook with ${status}.`,
    {
      hint: isRedirect
        ? 'Redirects are not followed: deliver to the address that answers itself.'
        : undefined,
      details: { status, retryAfterSeconds: retryAfter },
      headers: retryAfter === undefined ? undefined : { 'Retry-After': String(retryAfter) },
    },
  )
}

const tooSlow = (host: string, ms: number): RuntimeError =>
  new RuntimeError('DELIVERY_TIMEOUT', `${host} did not answer the webhook within ${ms / 1000} s.`)

function unreachable(host: string, cause: unknown): RuntimeError {
  const { code } = fieldsIn(cause)
  const reason = typeof code === 'string' ? code : undefined
  return new RuntimeError(
    'DELIVERY_FAILED',
    `${host} could not be reached${reason ? ` (${reason})` : ''}.`,
    { details: { reason }, cause },
  )
}

const invalid = (message: string, cause?: unknown): RuntimeError =>
  new RuntimeError('INVALID_INPUT', message, { cause })
