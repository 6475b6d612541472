import type { IncomingHttpHeaders } from 'node:http'
import type { Code } from '../../../error-codes.ts'
import { type RuntimeError, isRetryable } from '../../../errors.ts'
import { fieldsIn } from '../../base/fields.ts'
import { modelFault } from './model-fault.ts'
import { toldWindow } from './told-window.ts'

/** The model and the provider that were asked, for the sentences of errors. */
export interface Asked {
  readonly model: string
  readonly host: string
  /** The key, which `heard` takes out of the text that it keeps. */
  readonly secret?: string
  /** The names of the settings that hold the key and the address, for the operator. */
  readonly settings: { readonly key: string; readonly address: string }
}

/** What a provider says about a fault: an HTTP status, and a body or an error in the stream. */
export interface Complaint {
  readonly status?: number
  readonly headers?: IncomingHttpHeaders
  readonly text: string
}

/** Turns a provider's complaint into an error with one of the kernel's codes. The provider's words stay in the cause, for the log. */
export function providerFault(complaint: Complaint, asked: Asked): RuntimeError {
  const code = codeOf(complaint)
  const seconds = retryAfter(complaint.headers) ?? errorOf(complaint.text).delay
  const [sentence, advice] = words(code, asked)
  return modelFault(code, asked.host, sentence, {
    ...advice,
    details: {
      retryable: isRetryable(code),
      upstreamStatus: complaint.status,
      retryAfterSeconds: seconds,
      ...(code === 'MODEL_CONTEXT_TOO_LONG' && toldWindow(complaint.text)),
    },
    headers: seconds === undefined ? undefined : { 'Retry-After': String(Math.ceil(seconds)) },
    // A refusal of the key often quotes the key, so its text is not kept.
    cause: code === 'MODEL_UNAUTHORIZED' ? undefined : heard(complaint, asked.secret),
  })
}

function codeOf({ status = 0, text }: Complaint): Code {
  const error = errorOf(text)
  const says = `${error.code} ${error.type} ${error.message}`.toLowerCase()
  const number = status >= 300 ? status : Number(error.code) || Number(error.status) || 0

  if (error.isSpentAwhile) return 'MODEL_RATE_LIMITED'
  if (/insufficient_quota|billing|credit balance|exceeded your current quota/.test(says))
    return 'MODEL_QUOTA_EXHAUSTED'
  if (tooLong.test(says) && number !== 429) return 'MODEL_CONTEXT_TOO_LONG'
  if (/content[ _]filter|content_policy|responsibleai|safety system/.test(says))
    return 'MODEL_REFUSED'
  if (/model_not_found|model .*(does not exist|not found)/.test(says)) return 'MODEL_NOT_FOUND'
  if (/invalid_api_key|api key not valid|authentication/.test(says)) return 'MODEL_UNAUTHORIZED'
  if (/rate_limit/.test(says)) return 'MODEL_RATE_LIMITED'
  if (/overloaded|server_is_busy/.test(says)) return 'MODEL_OVERLOADED'

  if (number >= 300 && number < 400) return 'MODEL_NOT_FOUND'
  switch (number) {
    case 401:
    case 403:
      return 'MODEL_UNAUTHORIZED'
    case 402:
      return 'MODEL_QUOTA_EXHAUSTED'
    case 404:
    case 405:
    case 410:
      return 'MODEL_NOT_FOUND'
    case 413:
      return 'MODEL_CONTEXT_TOO_LONG'
    case 408:
    case 504:
    case 524:
      return 'MODEL_TIMEOUT'
    case 409:
    case 425:
      return 'MODEL_FAILED'
    case 429:
      return 'MODEL_RATE_LIMITED'
  }
  if (number >= 400 && number < 500) return 'MODEL_BAD_REQUEST'
  if (number === 500) return 'MODEL_FAILED'
  if (number > 500) return 'MODEL_OVERLOADED'
  return 'MODEL_FAILED'
}

const tooLong = new RegExp(
  'context_length_exceeded|contextoverflow|context[ _](length|window|size)|maximum context|' +
    'prompt is too long|too many (input )?tokens|exceeds? .*(token|context)|maximum prompt length|' +
    'input is too long|reduce the length of the messages|max_new_tokens. must be <=',
)

interface ReadError {
  readonly code: string
  readonly type: string
  readonly status: string
  readonly message: string
  /** The quota that is spent is one of a minute, though the words are those of a spent account. */
  readonly isSpentAwhile: boolean
  /** The seconds to wait that stand in the body. */
  readonly delay?: number
}

/** Which quota is spent and for how long, by the details that some providers give in the form of google.rpc.Status. */
function quotaIn(details: unknown): Pick<ReadError, 'isSpentAwhile' | 'delay'> {
  if (!Array.isArray(details)) return { isSpentAwhile: false }
  const listed = details.slice(0, 20).map(fieldsIn)
  const quotas = listed
    .flatMap(({ violations }) => (Array.isArray(violations) ? violations.slice(0, 20) : []))
    .map((violation) => String(fieldsIn(violation).quotaId))
  const [wait] = listed.flatMap(
    ({ retryDelay }) => /^([\d.]+)s$/.exec(String(retryDelay))?.[1] ?? [],
  )
  const isDaily = quotas.some((id) => /PerDay|PerMonth/i.test(id))
  const isSpentAwhile =
    !isDaily && (wait !== undefined || quotas.some((id) => /PerMinute|PerSecond/i.test(id)))
  return { isSpentAwhile, ...(isSpentAwhile && wait !== undefined && { delay: Number(wait) }) }
}

/** Reads the fault from `{ error: { code, type, message } }`, `{ error: 'words' }` or `{ message }`; empty for any other text. */
function errorOf(text: string): ReadError {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return { code: '', type: '', status: '', message: '', isSpentAwhile: false } // the words of an HTML page tell no faults apart
  }
  const outer = Array.isArray(body) ? body[0] : body
  const inner = outer?.error ?? outer?.detail ?? outer
  const field = (name: string) =>
    ['string', 'number'].includes(typeof inner?.[name]) ? String(inner[name]) : ''
  return {
    code: field('code'),
    type: field('type'),
    status: field('status'),
    message: typeof inner === 'string' ? inner : field('message'),
    ...quotaIn(inner?.details),
  }
}

/** The sentence about what the provider did, and the advice: `hint` for the user, `check` for the operator. */
function words(
  code: Code,
  { model, settings }: Asked,
): [sentence: string, advice?: { readonly hint?: string; readonly check?: string }] {
  const later = { hint: 'Try again in a moment.' }
  switch (code) {
    case 'MODEL_UNAUTHORIZED':
      return ['did not accept the credentials of this server.', { check: `Check ${settings.key}.` }]
    case 'MODEL_QUOTA_EXHAUSTED':
      return [
        'has no credit left for this server.',
        { check: "Look at the provider's billing page." },
      ]
    case 'MODEL_NOT_FOUND':
      return [
        `has no model "${model}" at this address.`,
        { check: `Check MODEL and ${settings.address}.` },
      ]
    case 'MODEL_CONTEXT_TOO_LONG':
      return [
        `cannot read a conversation as long as this with "${model}".`,
        { hint: 'Start a new session.' },
      ]
    case 'MODEL_REFUSED':
      return ['refused to answer this for reasons of content.']
    case 'MODEL_RATE_LIMITED':
      return ['asks us to slow down.', later]
    case 'MODEL_OVERLOADED':
      return ['has too much to do just now.', later]
    case 'MODEL_TIMEOUT':
      return ['took too long to answer.', later]
    case 'MODEL_BAD_REQUEST':
      return [
        `did not accept the request for "${model}".`,
        { hint: "The provider's reason is in the log." },
      ]
    default:
      return ['failed to answer.', later]
  }
}

function heard({ status, text }: Complaint, secret: string | undefined): Error {
  const safe = secret ? text.replaceAll(secret, '[key]') : text
  return new Error(`The provider said${status ? ` (HTTP ${status})` : ''}: ${safe.slice(0, 2000)}`)
}

/** The seconds that the provider asks to wait: from `retry-after-ms`, or from `Retry-After` as seconds or as a date. */
function retryAfter(headers: IncomingHttpHeaders | undefined): number | undefined {
  const ms = Number(headers?.['retry-after-ms'] ?? NaN)
  if (ms >= 0) return ms / 1000
  const value = headers?.['retry-after']
  if (!value) return undefined
  const seconds = Number(value)
  if (seconds >= 0) return seconds
  const until = (Date.parse(value) - Date.now()) / 1000
  return Number.isNaN(until) ? undefined : Math.max(0, until)
}
