import type { CallToolResult } from '@modelcontextprotocol/server'
import type { OutsideTool, RuntimeError } from '#core'
import { cleaned } from '../tools/listed.ts'

/** How much of a result goes out. */
export const mostResultBytes = 256 * 1024
const mostArguments = 2_000

interface Called {
  readonly text: string
  readonly value: unknown
  readonly isCut: boolean
  readonly pieces?: readonly Piece[]
}

type Piece =
  | { readonly type: 'text'; readonly text: string }
  | {
      readonly type: 'image' | 'audio' | 'file'
      readonly mediaType: string
      readonly name?: string
      readonly data: Uint8Array | string
    }

const words = (text: string): CallToolResult => ({ content: [{ type: 'text', text }] })

/** The result of a call in the words of the protocol, bounded. */
export function answerOf(
  { text, value, isCut, pieces }: Called,
  tool: OutsideTool,
): CallToolResult {
  if (pieces) return { content: contentOf(pieces) }
  if (!tool.output) return words(text)
  // A client holds what is structured to its schema, and half a result does not fit it.
  if (isCut)
    return failed('The result is longer than 256 KiB.', 'TOO_LARGE', 'Ask for less at a time.')
  return { ...words(text), structuredContent: fieldsOf(value, text) }
}

/** A failed call: the sentence, its code and the next step. */
export const errorAnswer = ({ message, code, hint }: RuntimeError): CallToolResult =>
  failed(message, code, hint)

/** The same of words. */
export const failed = (sentence: string, code: string, hint?: string): CallToolResult => ({
  ...words(`${sentence} [${code}]${hint ? ` ${hint}` : ''}`),
  isError: true,
})

/** What a tool returned as plain data: its text is the JSON of it. */
function fieldsOf(value: unknown, text: string): Record<string, unknown> {
  const plain: unknown = typeof value === 'object' ? JSON.parse(text) : undefined
  return typeof plain === 'object' && plain !== null ? { ...plain } : {}
}

function contentOf(pieces: readonly Piece[]): CallToolResult['content'] {
  let left = mostResultBytes
  return pieces.map((piece) => {
    const { type } = piece
    const data = type === 'text' ? piece.text : base64(piece.data)
    left -= data.length
    if (type === 'text') return { type, text: left < 0 ? '[the rest was cut off]' : data }
    const { mediaType, name = type } = piece
    if (left < 0) {
      left += data.length
      return { type: 'text' as const, text: `[${mediaType}, ${Math.round(data.length / 1365)} kB]` }
    }
    if (type !== 'file') return { type, data, mimeType: mediaType }
    const uri = `file:///${encodeURIComponent(name)}`
    return { type: 'resource' as const, resource: { uri, mimeType: mediaType, blob: data } }
  })
}

const base64 = (data: Uint8Array | string): string =>
  typeof data === 'string' ? data : Buffer.from(data).toString('base64')

/** What a person is asked. The arguments are the client's words, so nothing in them can pass for the question itself. */
export function questionOf(name: string, args: Readonly<Record<string, unknown>>): string {
  const json = cleaned(JSON.stringify(args))
  const shown =
    json.length <= mostArguments
      ? json
      : `${json.slice(0, mostArguments).toWellFormed()}… (${json.length} characters)`
  return `May "${name}" run with ${shown}?`
}
