import { useState } from 'react'
import type { OracleClient } from '../core/client.ts'
import { toOracleError } from '../core/error.ts'
import type { Attachment, Overrides } from '../core/records.ts'
import { Store } from '../core/store.ts'
import type { FileToSend } from '../later/upload.ts'
import { useClient } from '../react/provider.ts'
import { useStore } from '../react/use-store.ts'

/** A file for the message to come. */
export interface Upload {
  readonly key: number
  readonly name: string
  /** From 0 to 1. */
  readonly progress: number
  /** A picture's own address in the page, to show it by. */
  readonly preview?: string
  /** There once the server has the file. */
  readonly attachment?: Attachment
  /** Why the server does not have it: a word of the kit, or what the server says. */
  readonly fault?: 'tooMany' | 'tooLarge' | 'offline' | { readonly message: string }
}

/** What `useFiles` returns. */
export interface Files {
  readonly uploads: readonly Upload[]
  readonly add: (files: Iterable<File>) => void
  readonly remove: (key: number) => void
  /** Sends a file again that did not get through. */
  readonly retry: (key: number) => void
  readonly clear: () => void
  /** Every file is at the server. */
  readonly isReady: boolean
  readonly attachments: readonly Attachment[]
}

const mostFiles = 10
const mostBytes = 10 * 1024 * 1024

/**
 * The files of the message to come: each goes to the server as soon as it is chosen, and stays here when it is refused. Files of a
 * conversation, by its name, stay when another one is shown meanwhile.
 */
export function useFiles(oracleDid: string, overrides?: Overrides, name?: string): Files {
  const client = useClient()
  const [own] = useState(() => new Shelf(client, oracleDid, overrides))
  const shelf = name === undefined ? own : shelfOf(client, oracleDid, overrides, name)
  const { uploads } = useStore(shelf)
  return {
    uploads,
    add: shelf.add,
    remove: shelf.drop,
    retry: shelf.start,
    clear: () => shelf.drop(),
    isReady: uploads.every(({ attachment }) => attachment),
    attachments: uploads.flatMap(({ attachment }) => attachment ?? []),
  }
}

/** The files of a conversation: the same for all who ask. What was chosen before it had its name is asked for by its `earlier` one. */
export const shelfOf = (
  client: OracleClient,
  oracleDid: string,
  overrides: Overrides | undefined,
  name: string,
  earlier?: string,
): Shelf =>
  client.once(JSON.stringify(['files', oracleDid, overrides?.baseUrl, name]), () =>
    earlier === undefined
      ? new Shelf(client, oracleDid, overrides)
      : shelfOf(client, oracleDid, overrides, earlier),
  )

/** Files on their way to the server, or there. */
class Shelf extends Store<{ readonly uploads: readonly Upload[] }> {
  readonly #oracle: Pick<FileToSend, 'client' | 'oracleDid' | 'overrides'>
  readonly #known = new Map<number, { readonly file: File; stop?: AbortController }>()
  #next = 0

  constructor(client: OracleClient, oracleDid: string, overrides?: Overrides) {
    super({ uploads: [] })
    this.#oracle = { client, oracleDid, overrides }
  }

  /** Whoever looks finds what was chosen before. */
  protected mount(): void {}

  add = (files: Iterable<File>): void => {
    let { length } = this.#uploads
    for (const file of files) {
      const key = this.#next++
      const fault =
        length++ >= mostFiles ? 'tooMany' : file.size > mostBytes ? 'tooLarge' : undefined
      const isPicture = /^image\/(png|jpeg|gif|webp)$/.test(file.type)
      const preview = isPicture && !fault ? { preview: URL.createObjectURL(file) } : {}
      const chosen: Upload = { key, name: file.name, progress: 0, ...preview, fault }
      this.set({ uploads: [...this.#uploads, chosen] })
      if (fault) continue
      this.#known.set(key, { file })
      void this.start(key)
    }
  }

  /** Sends a file, or sends it again. */
  start = async (key: number): Promise<void> => {
    const one = this.#known.get(key)
    if (!one) return
    const { signal } = (one.stop = new AbortController())
    this.#change(key, { fault: undefined, progress: 0 })
    try {
      if (navigator.onLine === false) return this.#change(key, { fault: 'offline' })
      const { upload } = await import('../later/upload.ts')
      const onProgress = (progress: number) => this.#change(key, { progress })
      const attachment = await upload({ ...this.#oracle, file: one.file, signal, onProgress })
      this.#change(key, { progress: 1, attachment })
    } catch (thrown) {
      if (signal.aborted) return
      const { message } = toOracleError(thrown)
      this.#change(key, { fault: { message } })
    }
  }

  /** Lets go of a file that is not wanted any more, or of all that are said. */
  drop = (only?: number): void => {
    const isGone = ({ key }: Upload) => key === (only ?? key)
    for (const { key, preview } of this.#uploads.filter(isGone)) {
      this.#known.get(key)?.stop?.abort()
      this.#known.delete(key)
      if (preview) URL.revokeObjectURL(preview)
    }
    this.set({ uploads: this.#uploads.filter((one) => !isGone(one)) })
  }

  get #uploads(): readonly Upload[] {
    return this.getSnapshot().uploads
  }

  #change(key: number, more: Partial<Upload>): void {
    this.set({ uploads: this.#uploads.map((one) => (one.key === key ? { ...one, ...more } : one)) })
  }
}
