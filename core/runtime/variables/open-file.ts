import { open, type FileHandle } from 'node:fs/promises'

/** Opens a file for as long as some work takes. */
export async function withFile<T>(
  path: string,
  { flags = 'r', mode }: { readonly flags?: string | number; readonly mode?: number },
  work: (file: FileHandle) => Promise<T>,
): Promise<T> {
  const file = await open(path, flags, mode)
  try {
    return await work(file)
  } finally {
    await file.close()
  }
}

/** Resolves when a file, or the names in a folder, are on the disk. */
export const sync = (path: string): Promise<void> => withFile(path, {}, (file) => file.sync())
