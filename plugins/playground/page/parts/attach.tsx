import { useRef } from 'react'
import type { Upload } from './uploads.ts'

/** The button that opens the picker of files. */
export function AttachButton({ onAdd }: { onAdd: (files: Iterable<File>) => void }) {
  const picker = useRef<HTMLInputElement>(null)
  return (
    <>
      <input
        ref={picker}
        hidden
        type="file"
        multiple
        aria-label="Files to attach"
        onChange={({ target }) => {
          onAdd([...(target.files ?? [])])
          target.value = '' // The same file can be chosen again.
        }}
      />
      <button type="button" className="quiet" onClick={() => picker.current?.click()}>
        Attach files
      </button>
    </>
  )
}

/** What is attached to the message to come: how far each file is, what went wrong, and how to take it away. */
export function UploadList(props: { uploads: readonly Upload[]; onRemove: (key: number) => void }) {
  const { uploads, onRemove } = props
  if (uploads.length === 0) return null
  return (
    <ul className="uploads" aria-label="Attached files">
      {uploads.map(({ key, name, progress, attachment, error }) => (
        <li key={key} className={error ? 'bad' : undefined}>
          <span className="name">{name}</span>
          {error ? (
            <span role="alert">{error}</span>
          ) : attachment ? (
            <span className="faint">attached</span>
          ) : (
            <progress value={progress} aria-label={`Sending ${name}`} />
          )}
          <button
            type="button"
            className="quiet"
            aria-label={`Remove ${name}`}
            onClick={() => onRemove(key)}
          >
            ✕
          </button>
        </li>
      ))}
    </ul>
  )
}
