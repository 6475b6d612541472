import { RuntimeError } from '../../errors.ts'

/** A piece of what a tool returns with `parts`: words, or a picture, a sound or a file with its bytes. */
export type GivenPart =
  | { readonly type: 'text'; readonly text: string }
  | {
      readonly type: 'image' | 'audio' | 'file'
      /** What the tool takes the bytes for. The runtime looks at the bytes, and they have the last word. */
      readonly mediaType: string
      readonly name?: string
      /** The bytes, or their base64. */
      readonly data: Uint8Array | string
    }

/** The same in every copy of this package: a plugin may have one of its own. */
const mark = Symbol.for('oracle-runtime.parts')

/** What `parts` makes of pieces. */
export interface GivenParts {
  readonly [mark]: readonly GivenPart[]
}

/** Makes a tool's result of several pieces: the model reads the words, and the pictures and files that it can read. */
export function parts(pieces: readonly GivenPart[]): GivenParts {
  if (!Array.isArray(pieces) || pieces.length === 0 || !pieces.every(isPiece))
    throw new RuntimeError('INPUT_INVALID', 'parts() takes a list of pieces.', {
      hint: "A piece is { type: 'text', text } or { type: 'image' | 'audio' | 'file', mediaType, name?, data }.",
    })
  return { [mark]: [...pieces] }
}

/** The pieces of a tool's result; undefined where the result is none of `parts`. */
export function piecesOf(value: unknown): readonly GivenPart[] | undefined {
  if (typeof value !== 'object' || value === null || !(mark in value)) return undefined
  const pieces = value[mark]
  return Array.isArray(pieces) ? pieces.filter(isPiece) : undefined
}

function isPiece(piece: unknown): piece is GivenPart {
  const { type, text, mediaType, name, data }: Readonly<Record<string, unknown>> = Object(piece)
  if (type === 'text') return typeof text === 'string'
  if (type !== 'image' && type !== 'audio' && type !== 'file') return false
  if (typeof mediaType !== 'string' || (name !== undefined && typeof name !== 'string'))
    return false
  return typeof data === 'string' || data instanceof Uint8Array
}
