import type { OracleClient } from '../core/client.ts'
import { OracleError } from '../core/error.ts'
import type { Attachment, Overrides } from '../core/records.ts'

/** A file, and the oracle that gets it. */
export interface FileToSend {
  readonly client: OracleClient
  readonly oracleDid: string
  readonly overrides: Overrides | undefined
  readonly file: File
  readonly signal: AbortSignal
  /** Told how much has gone out, from 0 to 1. */
  readonly onProgress: (share: number) => void
}

/** Sends a file as the client's user. Only XMLHttpRequest tells a page how far it has come. */
export async function upload(sent: FileToSend): Promise<Attachment> {
  const { client, oracleDid, overrides, file, signal, onProgress } = sent
  const [headers, { apiUrl }] = await Promise.all([
    client.tokens.headers(oracleDid),
    client.config(oracleDid, overrides).read(),
  ])
  signal.throwIfAborted()
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    request.open('POST', `${apiUrl}/files`)
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value)
    request.setRequestHeader('x-filename', encodeURIComponent(file.name))
    request.setRequestHeader('content-type', file.type || 'application/octet-stream')
    request.responseType = 'json'
    request.upload.onprogress = ({ loaded, total }) => onProgress(total ? loaded / total : 0)
    request.onload = () => {
      const { fileId, name, mediaType, bytes, message = '', hint = '' } = request.response ?? {}
      if (request.status === 201)
        resolve({ fileId, filename: name, mimetype: mediaType, size: bytes })
      else
        reject(
          new OracleError(
            'invalid_request',
            `${message} ${hint}`.trim() || `It answered ${request.status}.`,
          ),
        )
    }
    request.onerror = () => reject(new TypeError('The connection broke.'))
    signal.addEventListener('abort', () => request.abort())
    request.send(file)
  })
}
