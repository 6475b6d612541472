import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { RuntimeError } from '../../../errors.ts'
import { readPairs } from './pairs.ts'
import { parseJson } from '../../base/safe-json.ts'

/** Whether the request announces a body. */
export function hasBody({ headers }: IncomingMessage): boolean {
  return (
    headers['transfer-encoding'] !== undefined ||
    (headers['content-length'] !== undefined && headers['content-length'] !== '0')
  )
}

const early = new WeakMap<IncomingMessage, Promise<Buffer>>()

/** Reads a body before its route does, up to `maxBytes` or the usual size; the route then gets the same bytes. */
export function readEarly(req: IncomingMessage, maxBytes = 1024 * 1024): Promise<Buffer> {
  const known = early.get(req)
  if (known) return known
  const body = hasBody(req) ? readBody(req, maxBytes) : Promise.resolve(Buffer.alloc(0))
  early.set(req, body)
  return body
}

/** Reads a body whole, up to `maxBytes`. After a refusal, whoever answers deals with the rest of the body. */
export function readBody(req: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const known = early.get(req)
  if (known) return known
  if (Number(req.headers['content-length'] ?? 0) > maxBytes)
    return Promise.reject(tooLarge(maxBytes))
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    const settle = (finish: () => void) => {
      req.off('data', onData).off('end', onEnd).off('error', onGone).off('close', onGone)
      finish()
    }
    const onData = (chunk: Buffer) => {
      size += chunk.length
      chunks.push(chunk)
      if (size > maxBytes) settle(() => reject(tooLarge(maxBytes)))
    }
    const onEnd = () => {
      const [first] = chunks
      const whole = chunks.length === 1 && first ? first : Buffer.concat(chunks, size)
      settle(() => resolve(whole))
    }
    const onGone = () =>
      settle(() =>
        reject(new RuntimeError('BAD_REQUEST', 'The client left in the middle of its body.')),
      )
    req.on('data', onData).on('end', onEnd).on('error', onGone).on('close', onGone)
  })
}

/** The refusal of a body that is longer than its route takes. */
export function tooLarge(maxBytes: number): RuntimeError {
  return new RuntimeError('BODY_TOO_LARGE', `The body is larger than ${maxBytes} bytes.`)
}

/** The format of a body, from `Content-Type`; the edge refuses any other with 415. */
type BodyKind = 'json' | 'form' | 'ndjson'

const kinds: readonly [RegExp, BodyKind][] = [
  [/^application\/json$|^[a-z0-9.!#$&^_-]+\/[a-z0-9.!#$&^_-]+\+json$/, 'json'],
  [/^application\/x-www-form-urlencoded$/, 'form'],
  [/^application\/(?:x-ndjson|ndjson|jsonl|x-jsonlines)$/, 'ndjson'],
]

/** Whether a body comes as NDJSON, by its type alone. */
export const saysNdjson = ({ headers }: IncomingMessage): boolean =>
  kindOf(headers['content-type'] ?? '') === 'ndjson'

const kindOf = (header: string): BodyKind | undefined => {
  const [type = ''] = header.toLowerCase().split(';')
  return kinds.find(([pattern]) => pattern.test(type.trim()))?.[1]
}

/** Reads the content type of a request that has a body, and refuses an encoding. */
export function bodyKind(req: IncomingMessage, accepts: readonly BodyKind[]): BodyKind {
  const { 'content-type': header = '', 'content-encoding': encoding } = req.headers
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity')
    throw new RuntimeError(
      'UNSUPPORTED_MEDIA_TYPE',
      `A body with Content-Encoding "${encoding}" is not read.`,
      { hint: 'Send the body as it is, without Content-Encoding.' },
    )
  // Nearly every request says exactly this, so the header need not be taken apart.
  if (header === 'application/json' && accepts.includes('json')) return 'json'
  const [, ...parameters] = header.toLowerCase().split(';')
  const kind = kindOf(header)
  if (kind === undefined || !accepts.includes(kind))
    throw new RuntimeError(
      'UNSUPPORTED_MEDIA_TYPE',
      header === ''
        ? 'The body comes without a Content-Type.'
        : `A body of the type "${header}" is not read here.`,
      { hint: `Send ${accepts.map((accepted) => sends[accepted]).join(' or ')}.` },
    )
  const charset = parameters.map(
    (parameter) => /^\s*charset\s*=\s*"?([^"]*)"?\s*$/.exec(parameter)?.[1],
  )
  const isRead = (name: string) => utf8Names.has(name) || (kind === 'form' && latinNames.has(name))
  const foreign = charset.find((name) => name !== undefined && !isRead(name))
  if (foreign !== undefined)
    throw new RuntimeError('UNSUPPORTED_MEDIA_TYPE', `The charset "${foreign}" is not read.`, {
      hint: 'Send UTF-8.',
    })
  return kind
}

const utf8Names = new Set(['utf-8', 'utf8', 'us-ascii'])
/**
 * What libraries write beside a form of their own accord, mostly Java's. The letters of a form are ASCII, and what it escapes is
 * UTF-8 whatever stands here, as the URL standard has it; escapes that are no UTF-8 are refused where the form is read.
 */
const latinNames = new Set(['iso-8859-1', 'iso-8859-15', 'latin1', 'windows-1252'])
const sends: Record<BodyKind, string> = {
  json: 'Content-Type: application/json',
  form: 'application/x-www-form-urlencoded',
  ndjson: 'Content-Type: application/x-ndjson',
}

/** The value of a whole body; an empty body becomes an empty object. */
export function parseBody(raw: Buffer, kind: BodyKind): unknown {
  if (raw.length === 0) return {}
  const text = decodeText(raw)
  return kind === 'form' ? readPairs(text, 'form') : parseJson(text)
}

/** Bytes as text; they must be UTF-8. A byte order mark is dropped. */
export function decodeText(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw new RuntimeError('UNSAFE_TEXT', 'The body is not UTF-8.')
  return withoutMark(bytes.toString('utf8'))
}

/** Text without its byte order mark, where it has one. */
export const withoutMark = (text: string): string =>
  text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
