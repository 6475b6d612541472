import type { JsonValue } from '@bufbuild/protobuf'
import type { IncomingMessage } from 'node:http'
import { RuntimeError } from '#core'
import { parseJson } from '../json/exact.ts'

const maxBytes = 1024 * 1024
/** The deepest JSON that the gateway accepts, because code that reads it recurses. */
const deepest = 64

/** The JSON body of a request; undefined where it has none. */
export async function readJson(req: IncomingMessage): Promise<JsonValue | undefined> {
  const bytes = await readBytes(req)
  return bytes.length === 0 ? undefined : jsonOf(bytes)
}

/** The body of a request as bytes; empty where the request has none. */
export async function readBytes(req: IncomingMessage): Promise<Buffer> {
  const { 'content-length': length, 'transfer-encoding': encoding } = req.headers
  if ((length === undefined || length === '0') && encoding === undefined) return Buffer.alloc(0)
  if (Number(length ?? 0) > maxBytes) throw tooLarge()
  return readChunks(req)
}

/** Reads bytes as JSON in UTF-8, within the bounds of a body. */
export function jsonOf(bytes: Uint8Array): JsonValue {
  const text = textOf(bytes)
  let json: JsonValue
  try {
    json = parseJson(text)
  } catch (cause) {
    throw new RuntimeError('INVALID_JSON', 'The body is not JSON.', { cause })
  }
  if (nests(text))
    throw new RuntimeError('TOO_DEEP', `The JSON nests deeper than ${deepest} levels.`)
  if (text.includes('\\u0000') && holdsNul(json)) throw nul()
  return json
}

/** Whether a JSON text nests deeper than `deepest` levels. */
function nests(text: string): boolean {
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === quote) {
      while (text.charCodeAt(++at) !== quote) if (text.charCodeAt(at) === backslash) at++
    } else if (code === brace || code === bracket) {
      if (++depth > deepest) return true
    } else if (code === brace + 2 || code === bracket + 2) depth--
  }
  return false
}
const [quote, backslash, brace, bracket] = [0x22, 0x5c, 0x7b, 0x5b]

/** Whether a value contains U+0000. The escape in the text alone does not prove it: a backslash may stand before the escape. */
function holdsNul(json: JsonValue): boolean {
  if (typeof json === 'string') return json.includes('\0')
  if (typeof json !== 'object' || json === null) return false
  return Object.entries(json).some(([key, item]) => key.includes('\0') || holdsNul(item))
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function textOf(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch (cause) {
    throw new RuntimeError('INVALID_JSON', 'The body is not UTF-8.', { cause })
  }
}

/** Reads a body by events, because an async iterator that stops early destroys the request and with it the answer. */
function readChunks(req: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    req.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size > maxBytes) reject(tooLarge())
      else chunks.push(chunk)
    })
    req.once('end', () => resolve(Buffer.concat(chunks)))
    const gone = () => {
      // Every request closes in the end. Only an early close is an error, which the check makes before an Error is constructed.
      if (!req.complete)
        reject(new RuntimeError('BAD_REQUEST', 'The client left in the middle of its body.'))
    }
    req.once('error', gone)
    req.once('close', gone)
  })
}

const nul = () => new RuntimeError('BAD_REQUEST', 'A value holds the character U+0000.')
const tooLarge = () =>
  new RuntimeError('BODY_TOO_LARGE', `The body is larger than ${maxBytes} bytes.`)
