import { RuntimeError } from '../../errors.ts'
import type { GivenPart, GivenParts } from '../../plugin.ts'
import { fieldsIn } from '../base/fields.ts'

/** The same in every copy of this package: a plugin may have one of its own. */
const mark = Symbol.for('oracle-runtime.parts')

/** Makes a tool's result of several pieces: the model reads the words, and the pictures and files that it can read. */
export function parts(pieces: readonly GivenPart[]): GivenParts {
  if (!Array.isArray(pieces) || pieces.length === 0 || !pieces.every(isPiece))
    throw new RuntimeError('INPUT_INVALID', 'parts() takes a list of pieces.', {
      hint: "A piece is { type: 'text', text } or { type: 'image' | 'audio' | 'file', mediaType, name?, data, keep? }.",
    })
  return Object.assign({ pieces: [...pieces] }, { [mark]: true })
}

/** The pieces of a tool's result; undefined where the result is none of `parts`. */
export function piecesOf(value: unknown): readonly GivenPart[] | undefined {
  if (typeof value !== 'object' || value === null || !(mark in value)) return undefined
  const { pieces } = fieldsIn(value)
  return Array.isArray(pieces) ? pieces.filter(isPiece) : undefined
}

function isPiece(piece: unknown): piece is GivenPart {
  const { type, text, mediaType, name, data, keep }: Readonly<Record<string, unknown>> =
    Object(piece)
  if (type === 'text') return typeof text === 'string'
  if (type !== 'image' && type !== 'audio' && type !== 'file') return false
  if (typeof mediaType !== 'string' || (name !== undefined && typeof name !== 'string'))
    return false
  if (keep !== undefined && typeof keep !== 'boolean') return false
  return typeof data === 'string' || data instanceof Uint8Array
}
