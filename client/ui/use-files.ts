import { useRef, useState } from 'react'
import { toOracleError } from '../core/error.ts'
import type { Attachment, Overrides } from '../core/records.ts'
import { useClient } from '../react/provider.ts'

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

/** The files of the message to come: each goes to the server as soon as it is chosen, and stays here when it is refused. */
export function useFiles(oracleDid: string, overrides?: Overrides): Files {
  const client = useClient()
  const [uploads, setUploads] = useState<readonly Upload[]>([])
  const next = useRef(0)
  const known = useRef(new Map<number, { readonly file: File; stop: AbortController }>())
  const change = (key: number, more: Partial<Upload>) =>
    setUploads((all) => all.map((one) => (one.key === key ? { ...one, ...more } : one)))
  const start = async (key: number) => {
    const one = known.current.get(key)
    if (!one) return
    const { signal } = (one.stop = new AbortController())
    change(key, { fault: undefined, progress: 0 })
    try {
      if (navigator.onLine === false) return change(key, { fault: 'offline' })
      const [headers, { apiUrl }] = await Promise.all([
        client.tokens.headers(oracleDid),
        client.config(oracleDid, overrides).read(),
      ])
      const attachment = await send(`${apiUrl}/files`, one.file, headers, signal, (progress) =>
        change(key, { progress }),
      )
      change(key, { progress: 1, attachment })
    } catch (thrown) {
      if (signal.aborted) return
      const { message } = thrown instanceof Refused ? thrown : toOracleError(thrown)
      change(key, { fault: { message } })
    }
  }
  const add = (files: Iterable<File>) => {
    let count = uploads.length
    for (const file of files) {
      const key = next.current++
      const fault =
        count++ >= mostFiles ? 'tooMany' : file.size > mostBytes ? 'tooLarge' : undefined
      const isPicture = /^image\/(png|jpeg|gif|webp)$/.test(file.type)
      const preview = isPicture && !fault ? { preview: URL.createObjectURL(file) } : {}
      setUploads((all) => [...all, { key, name: file.name, progress: 0, ...preview, fault }])
      if (fault) continue
      known.current.set(key, { file, stop: new AbortController() })
      void start(key)
    }
  }
  const drop = (key: number) => {
    known.current.get(key)?.stop.abort()
    known.current.delete(key)
  }
  const letGo = (gone: readonly Upload[]) => {
    for (const { key, preview } of gone) {
      drop(key)
      if (preview) URL.revokeObjectURL(preview)
    }
  }
  return {
    uploads,
    add,
    remove(key) {
      letGo(uploads.filter((one) => one.key === key))
      setUploads((all) => all.filter((one) => one.key !== key))
    },
    retry: (key) => void start(key),
    clear() {
      letGo(uploads)
      setUploads([])
    },
    isReady: uploads.every(({ attachment }) => attachment !== undefined),
    attachments: uploads.flatMap(({ attachment }) => attachment ?? []),
  }
}

class Refused extends Error {}

/** Sends a file. Only XMLHttpRequest tells a page how far it has come. */
function send(
  url: string,
  file: File,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
  onProgress: (share: number) => void,
): Promise<Attachment> {
  signal.throwIfAborted()
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    request.open('POST', url)
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value)
    request.setRequestHeader('x-filename', encodeURIComponent(file.name))
    request.setRequestHeader('content-type', file.type || 'application/octet-stream')
    request.responseType = 'json'
    request.upload.onprogress = ({ loaded, total }) => onProgress(total ? loaded / total : 0)
    request.onload = () => {
      const { fileId, name, mediaType, bytes, message = '', hint = '' } = request.response ?? {}
      if (request.status === 201)
        resolve({ fileId, filename: name, mimetype: mediaType, size: bytes })
      else reject(new Refused(`${message} ${hint}`.trim() || `${request.status}`))
    }
    request.onerror = () => reject(new TypeError('The connection broke.'))
    signal.addEventListener('abort', () => request.abort())
    request.send(file)
  })
}
