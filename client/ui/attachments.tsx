import { useRef } from 'react'
import { straight } from './markdown/links.ts'
import type { Files, Upload } from './use-files.ts'
import { useWords } from './words.ts'

/** The props of `Attachments`. */
export interface AttachmentsProps {
  readonly files: Files
}

/** The files of the message to come: how far each is, why one is refused, and how to take it away. */
export function Attachments({ files: { uploads, remove, retry } }: AttachmentsProps) {
  const words = useWords()
  if (uploads.length === 0) return null
  return (
    <ul className="oc-attachments" aria-label={words.attachments}>
      {uploads.map((upload) => {
        const { key, preview, fault, attachment } = upload
        const name = straight(upload.name)
        return (
          <li key={key} data-state={fault ? 'failed' : attachment ? 'done' : 'sending'}>
            {preview && <img src={preview} alt="" />}
            <bdi>{name}</bdi>
            {fault ? (
              <span role="alert" dir="auto">
                {typeof fault === 'string' ? words[fault] : straight(fault.message)}
              </span>
            ) : (
              !attachment && (
                <progress value={upload.progress} aria-label={words.sendingFile(name)} />
              )
            )}
            {canRetry(upload) && (
              <button type="button" className="oc-quiet" onClick={() => retry(key)}>
                {words.tryAgain}
              </button>
            )}
            <button
              type="button"
              className="oc-quiet"
              aria-label={words.removeFile(name)}
              onClick={() => remove(key)}
            >
              ✕
            </button>
          </li>
        )
      })}
    </ul>
  )
}

const canRetry = ({ fault }: Upload): boolean =>
  fault !== undefined && fault !== 'tooMany' && fault !== 'tooLarge'

/** The button that opens the picker of files. */
export function AttachButton({ files }: AttachmentsProps) {
  const words = useWords()
  const picker = useRef<HTMLInputElement>(null)
  return (
    <>
      <input
        ref={picker}
        hidden
        type="file"
        multiple
        aria-label={words.attach}
        onChange={({ target }) => {
          files.add([...(target.files ?? [])])
          target.value = '' // The same file can be chosen again.
        }}
      />
      <button
        type="button"
        className="oc-attach"
        aria-label={words.attach}
        title={words.attach}
        onClick={() => picker.current?.click()}
      >
        +
      </button>
    </>
  )
}
