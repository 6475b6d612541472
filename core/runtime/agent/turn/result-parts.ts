import { RuntimeError } from '../../../errors.ts'
import type { GivenPart, MessagePart } from '../../../plugin.ts'
import { fieldsIn } from '../../base/fields.ts'
import type { NewFile } from '../../files/files.ts'
import {
  fileNameOf,
  fileTooLarge,
  filesTooLarge,
  mostBytesTogether,
  mostFileBytes,
  mostFiles,
  tooManyFiles,
} from '../../files/limits.ts'
import { fileKindOf } from '../../files/media-type.ts'
import { piecesOf } from '../../files/pieces.ts'
import type { FilesOfTurn } from './files.ts'

/** A result of `parts` whose files are kept: the words for the model, and where the rest lies. */
export interface KeptParts {
  readonly text: string
  readonly parts: readonly MessagePart[]
}

/** The results of `parts` that were kept, by the value that the tool returned: a call asks for its content more than once. */
const kept = new WeakMap<object, Promise<KeptParts>>()

/** Keeps the files of a result; undefined where the result is none of `parts`. What cannot be kept becomes a line of its text. */
export function keepParts(
  value: unknown,
  files: FilesOfTurn | undefined,
): Promise<KeptParts> | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const known = kept.get(value)
  const pieces = known ? undefined : piecesOf(value)
  if (!pieces) return known
  const keeping = keepAll(pieces, files)
  kept.set(value, keeping)
  return keeping
}

type FilePiece = Exclude<GivenPart, { type: 'text' }>

async function keepAll(
  pieces: readonly GivenPart[],
  files: FilesOfTurn | undefined,
): Promise<KeptParts> {
  const words: string[] = []
  const meant: { readonly file: NewFile; readonly isKept: boolean }[] = []
  let bytes = 0
  for (const piece of pieces) {
    if (piece.type === 'text') {
      words.push(piece.text)
      continue
    }
    const name = fileNameOf(piece.name ?? '') || piece.type
    try {
      const file = await fileOf(piece, name)
      if (meant.length >= mostFiles) throw tooManyFiles(meant.length + 1)
      if (bytes + file.body.length > mostBytesTogether) throw filesTooLarge(name)
      bytes += file.body.length
      meant.push({ file, isKept: piece.keep !== false })
    } catch (error) {
      words.push(whyNot(piece, name, error))
    }
  }
  const parts: MessagePart[] = []
  if (!files)
    for (const { file } of meant)
      words.push(`[${file.type} ${JSON.stringify(file.name)}: nothing keeps files here]`)
  else
    // One after the other: where there is no room for all, those that come first are kept.
    for (const { file, isKept } of meant)
      try {
        parts.push(...(isKept ? await files.keep([file]) : [files.hold(file)]))
      } catch (error) {
        words.push(whyNot(file, file.name, error))
      }
  return { text: words.join('\n\n') || (parts.length > 0 ? 'Done.' : ''), parts }
}

async function fileOf({ data, mediaType, name: given }: FilePiece, name: string): Promise<NewFile> {
  const body = typeof data === 'string' ? Buffer.from(data, 'base64') : data
  if (body.length > mostFileBytes) throw fileTooLarge(name)
  const kind = await fileKindOf(name, body, mediaType)
  return { ...kind, name: given === undefined ? `${name}.${kind.ending}` : name, body }
}

/** The line in place of a file that cannot be kept. Faults of the database are none of the file's. */
function whyNot({ type }: { readonly type: string }, name: string, error: unknown): string {
  if (!(error instanceof RuntimeError) || error.status >= 500) throw error
  return `[${type} ${JSON.stringify(name)} is missing: ${error.message}]`
}

/** The result as the mark of a write keeps it, for a process that finds the write done. */
export const writtenParts = ({ parts, text }: KeptParts): string =>
  JSON.stringify({ $parts: parts, text })

/** What a write returned that was done before, by the text of its mark: files again, where it had files. */
export function recordedValue(content: string): unknown {
  if (!content.startsWith('{"$parts":[')) return content
  try {
    const { $parts, text } = fieldsIn(JSON.parse(content))
    if (!Array.isArray($parts) || typeof text !== 'string') return content
    const value = { text }
    kept.set(value, Promise.resolve({ parts: $parts.filter(isPart), text }))
    return value
  } catch {
    return content
  }
}

function isPart(value: unknown): value is MessagePart {
  const { type, mediaType, bytes, file } = fieldsIn(value)
  const isKnown = type === 'image' || type === 'audio' || type === 'file'
  return (
    isKnown && [mediaType, file].every((text) => typeof text === 'string') && Number(bytes) >= 0
  )
}
