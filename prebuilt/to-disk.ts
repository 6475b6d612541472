import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * Brings the files of a build to the disk, before a list names them: after a power cut a list may be there whose files are
 * empty, and no start would find that out before it fails.
 */
export async function toDisk(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const file = await open(join(entry.parentPath, entry.name), 'r+')
    try {
      await file.datasync()
    } finally {
      await file.close()
    }
  }
}
