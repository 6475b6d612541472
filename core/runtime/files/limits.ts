import { RuntimeError } from '../../errors.ts'

/** How large one file may be. */
export const mostFileBytes = 10 * 1024 * 1024
/** How large the files of one message, or of one result of a tool, may be together. */
export const mostBytesTogether = 20 * 1024 * 1024
/** How many files a message, or a result of a tool, may have. */
export const mostFiles = 10
/** How long a name of a file may be. */
const longestName = 200

const mib = (bytes: number) => `${bytes / 1024 / 1024} MiB`

/** The refusal of a file that is larger than one may be. */
export const fileTooLarge = (name: string): RuntimeError =>
  tooLarge(`"${name}" is larger than ${mib(mostFileBytes)}, the most that one file may have.`, {
    file: name,
    limit: mostFileBytes,
  })

/** The refusal of files that are too large together; `name` is the one that is too much. */
export const filesTooLarge = (name: string): RuntimeError =>
  tooLarge(
    `With "${name}" the files of the message are larger than ${mib(mostBytesTogether)} together.`,
    { file: name, limit: mostBytesTogether },
  )

/** The refusal of too many files. */
export const tooManyFiles = (files: number): RuntimeError =>
  tooLarge(`There are ${files} files, and a message takes ${mostFiles}.`, {
    files,
    limit: mostFiles,
  })

/** The refusal of a file for which its owner has no room. */
export const noRoomFor = (name: string, limit: number): RuntimeError =>
  tooLarge(
    `"${name}" is not kept: your files may have ${mib(limit)} together (FILES_PER_USER_MB).`,
    { file: name, limit },
    'Delete conversations with files that you no longer need.',
  )

function tooLarge(message: string, details: object, hint = 'Send less, or smaller files.') {
  return new RuntimeError('ATTACHMENT_TOO_LARGE', message, { hint, details })
}

/** A name of a file on one line, without the path that it may stand behind. */
export function fileNameOf(given: string): string {
  const last =
    given
      .replace(/[\s\p{Cc}\p{Cf}]+/gu, ' ')
      .split(/[/\\]/)
      .at(-1) ?? ''
  return last.trim().slice(0, longestName).toWellFormed()
}
