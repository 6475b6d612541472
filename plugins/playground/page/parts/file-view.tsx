import { useEffect, useState } from 'react'
import { answer } from '../oracle.ts'

/** A file that only its owner may read, so the page fetches it with the user's credentials. */
interface Shown {
  readonly fileId?: string
  readonly mediaType: string
  readonly name: string
}

/** The files of a message or of a result: pictures as such, everything else to save. */
export function FileList({ files, label }: { files: readonly Shown[]; label: string }) {
  if (files.length === 0) return null
  return (
    <ul className="files" aria-label={label}>
      {files.map((file, at) => (
        <li key={file.fileId ?? at}>
          <FileView {...file} />
        </li>
      ))}
    </ul>
  )
}

function FileView({ fileId, mediaType, name }: Shown) {
  const [url, setUrl] = useState<string>()
  const [isGone, setGone] = useState(false)
  const isPicture = /^image\/(?:png|jpeg|gif|webp|avif)$/.test(mediaType)
  useEffect(() => {
    if (!fileId || !isPicture) return
    let isLeft = false
    read(fileId)
      .then(asDataUrl)
      .then(
        (made) => isLeft || setUrl(made),
        () => isLeft || setGone(true),
      )
    return () => void (isLeft = true)
  }, [fileId, isPicture])
  if (!fileId) return <span className="faint">{name}</span>
  if (isGone) return <span className="faint">{name} is gone</span>
  const save = () =>
    void read(fileId).then(
      (blob) => {
        const link = document.createElement('a')
        link.href = URL.createObjectURL(blob)
        link.download = name
        link.click()
        setTimeout(() => URL.revokeObjectURL(link.href), 1000)
      },
      () => setGone(true),
    )
  return (
    <button type="button" className="quiet file" aria-label={`Save ${name}`} onClick={save}>
      {url ? <img src={url} alt={name} /> : name}
    </button>
  )
}

async function read(fileId: string): Promise<Blob> {
  const response = await answer(`/files/${encodeURIComponent(fileId)}`)
  if (!response.ok) throw new Error(`The file could not be read: ${response.status}.`)
  return response.blob()
}

/** The page may show pictures of its own origin and data, and no others. */
function asDataUrl(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(String(reader.result))
    reader.onerror = () => reject(reader.error)
    reader.readAsDataURL(blob)
  })
}
