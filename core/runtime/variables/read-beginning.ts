import { constants } from 'node:fs/promises'
import { withFile } from './open-file.ts'

/** The beginning of a file, and whom the file lets read it. */
export interface FileBeginning {
  readonly bytes: Buffer
  /** Whether users other than the owner and the group may read the file. */
  readonly isOpenToOthers: boolean
}

/** How often a file is read again that somebody writes meanwhile. */
const mostReadings = 3

/**
 * Reads no more than so many bytes of a file. Throws for what is no file and for one that somebody goes on writing, and
 * never waits for a writer.
 */
export async function readBeginning(path: string, most: number): Promise<FileBeginning> {
  for (let reading = 0; reading < mostReadings; reading++) {
    const beginning = await readOnce(path, most)
    if (beginning) return beginning
  }
  throw new Error('it changes while it is read')
}

/** Undefined where the file changed meanwhile, so that what was read may be half of the former text. */
function readOnce(path: string, most: number): Promise<FileBeginning | undefined> {
  // A pipe would keep the boot waiting for whoever writes into it; without this flag even opening it would.
  const flags = constants.O_RDONLY | constants.O_NONBLOCK
  return withFile(path, { flags }, async (file) => {
    const stats = await file.stat()
    if (stats.isDirectory()) throw new Error('it is a directory')
    if (!stats.isFile()) throw new Error('it is no file')
    const bytes = Buffer.alloc(most)
    let length = 0
    while (length < most) {
      const { bytesRead } = await file.read(bytes, length, most - length)
      if (bytesRead === 0) break
      length += bytesRead
    }
    const after = await file.stat()
    if (after.mtimeMs !== stats.mtimeMs || after.size !== stats.size) return undefined
    return { bytes: bytes.subarray(0, length), isOpenToOthers: (stats.mode & 0o004) !== 0 }
  })
}
