import { useRef, useState } from 'react'
import type { Attachment } from 'oracle-runtime-client'
import type { Oracle } from '../oracle.ts'

/** A file that the user has attached to the message to come. */
export interface Upload {
  readonly key: number
  readonly name: string
  /** From 0 to 1. */
  readonly progress: number
  /** There once the server has the file. */
  readonly attachment?: Attachment
  /** Why the server does not have it. */
  readonly error?: string
}

const mostFiles = 10
const mostBytes = 10 * 1024 * 1024

/** The files of the message to come: each is sent to the server as soon as it is chosen. */
export function useUploads(oracle: Oracle) {
  const [uploads, setUploads] = useState<readonly Upload[]>([])
  const next = useRef(0)
  const stops = useRef(new Map<number, AbortController>())
  const change = (key: number, more: Partial<Upload>) =>
    setUploads((all) => all.map((one) => (one.key === key ? { ...one, ...more } : one)))

  const add = (files: Iterable<File>) => {
    let count = uploads.length
    for (const file of files) {
      const key = next.current++
      const refused =
        count++ >= mostFiles
          ? `A message takes ${mostFiles} files at most.`
          : file.size > mostBytes
            ? 'A file may have 10 MiB at most.'
            : undefined
      setUploads((all) => [...all, { key, name: file.name, progress: 0, error: refused }])
      if (refused) continue
      const stop = new AbortController()
      stops.current.set(key, stop)
      send(oracle, file, stop.signal, (progress) => change(key, { progress })).then(
        (attachment) => change(key, { progress: 1, attachment }),
        (error: Error) => stop.signal.aborted || change(key, { error: error.message }),
      )
    }
  }
  const remove = (key: number) => {
    stops.current.get(key)?.abort()
    setUploads((all) => all.filter((one) => one.key !== key))
  }
  return {
    uploads,
    add,
    remove,
    clear: () => setUploads([]),
    /** Every file is at the server. */
    isReady: uploads.every(({ attachment }) => attachment !== undefined),
    attachments: uploads.flatMap(({ attachment }) => attachment ?? []),
  }
}

/** Sends a file. Only XMLHttpRequest tells a page how far it has come. */
async function send(
  { client, did }: Oracle,
  file: File,
  signal: AbortSignal,
  onProgress: (share: number) => void,
): Promise<Attachment> {
  const headers = await client.tokens.headers(did)
  signal.throwIfAborted()
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    request.open('POST', '/files')
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value)
    request.setRequestHeader('x-filename', encodeURIComponent(file.name))
    request.setRequestHeader('content-type', file.type || 'application/octet-stream')
    request.responseType = 'json'
    request.upload.onprogress = ({ loaded, total }) => onProgress(total ? loaded / total : 0)
    request.onload = () => {
      const { fileId, name, mediaType, bytes, message, hint } = request.response ?? {}
      if (request.status === 201)
        resolve({ fileId, filename: name, mimetype: mediaType, size: bytes })
      else
        reject(new Error([message ?? 'The server did not take the file.', hint].join(' ').trim()))
    }
    request.onerror = () => reject(new Error('The connection broke.'))
    signal.addEventListener('abort', () => request.abort())
    request.send(file)
  })
}
