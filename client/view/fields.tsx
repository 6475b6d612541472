import { useId } from 'react'

/** What every field has. */
export interface FieldProps {
  readonly label: string
  readonly value: string
  readonly onChange: (value: string) => void
  readonly required?: boolean
}

/** A labelled line of text. */
export function TextField({
  label,
  value,
  onChange,
  required,
  list,
}: FieldProps & { list?: readonly string[] }) {
  const id = useId()
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        value={value}
        required={required}
        autoComplete="off"
        list={list && `${id}-list`}
        onChange={(event) => onChange(event.target.value)}
      />
      {list && (
        <datalist id={`${id}-list`}>
          {list.map((item) => (
            <option key={item} value={item} />
          ))}
        </datalist>
      )}
    </div>
  )
}

/** A labelled number, whose value is the text that the user typed. */
export function NumberField(props: FieldProps & { min?: number; max?: number; step?: number }) {
  const id = useId()
  return (
    <div className="field">
      <label htmlFor={id}>{props.label}</label>
      <input
        id={id}
        type="number"
        required
        value={props.value}
        min={props.min}
        max={props.max}
        step={props.step ?? 'any'}
        onChange={(event) => props.onChange(event.target.value)}
      />
    </div>
  )
}

/** Labelled text of several lines. */
export function LinesField({
  label,
  value,
  onChange,
  rows = 6,
  about,
}: FieldProps & { rows?: number; about?: string }) {
  const id = useId()
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <textarea
        id={id}
        rows={rows}
        value={value}
        spellCheck={false}
        aria-describedby={about && `${id}-about`}
        onChange={(event) => onChange(event.target.value)}
      />
      {about && <small id={`${id}-about`}>{about}</small>}
    </div>
  )
}
