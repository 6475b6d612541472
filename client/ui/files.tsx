import { useEffect, useState } from 'react'
import { useClient } from '../react/provider.ts'
import { useAddress } from './address.ts'
import { straight } from './markdown/links.ts'
import { useWords } from './words.ts'

/** A file of a message or of a result. Without an id it is named alone. */
export interface ShownFile {
  readonly fileId?: string
  readonly mediaType: string
  readonly name: string
}

/** The props of `FileList`. */
export interface FileListProps {
  readonly files: readonly ShownFile[]
  readonly label: string
}

/** The files of a message or of a result: pictures as such, everything else to save. */
export function FileList({ files, label }: FileListProps) {
  if (files.length === 0) return null
  return (
    <ul className="oc-files" aria-label={label}>
      {files.map((file, at) => (
        <li key={file.fileId ?? at}>
          <File {...file} />
        </li>
      ))}
    </ul>
  )
}

const isPicture = (mediaType: string) => /^image\/(?:png|jpeg|gif|webp|avif)$/.test(mediaType)

function File({ fileId = '', mediaType, name: given }: ShownFile) {
  const words = useWords()
  const read = useFile()
  const [url, setUrl] = useState<string>()
  const [isGone, setGone] = useState(false)
  const name = straight(given)
  useEffect(() => {
    if (fileId === '' || !isPicture(mediaType)) return
    let made: string | undefined
    let isLeft = false
    read(fileId).then(
      (blob) => {
        if (!isLeft) setUrl((made = URL.createObjectURL(blob)))
      },
      () => isLeft || setGone(true),
    )
    return () => {
      isLeft = true
      if (made) URL.revokeObjectURL(made)
    }
  }, [read, fileId, mediaType])
  if (fileId === '') return <bdi className="oc-faint">{name}</bdi>
  if (isGone) return <span className="oc-faint">{words.fileGone(name)}</span>
  return (
    <button
      type="button"
      aria-label={words.saveFile(name)}
      onClick={() =>
        void read(fileId).then(
          (blob) => save(blob, name),
          () => setGone(true),
        )
      }
    >
      {url ? <img src={url} alt={name} /> : <bdi>{name}</bdi>}
    </button>
  )
}

/** Reads a file as its owner: nobody else may, so an address alone would not show it. */
function useFile(): (fileId: string) => Promise<Blob> {
  const client = useClient()
  const { oracleDid, overrides } = useAddress()
  const [read] = useState(() => async (fileId: string) => {
    const [headers, { apiUrl }] = await Promise.all([
      client.tokens.headers(oracleDid),
      client.config(oracleDid, overrides).read(),
    ])
    const response = await fetch(`${apiUrl}/files/${encodeURIComponent(fileId)}`, { headers })
    if (!response.ok) throw new Error(`The file could not be read: ${response.status}.`)
    return response.blob()
  })
  return read
}

/** Hands a file to the browser. */
function save(blob: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 1_000)
}
