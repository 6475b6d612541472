import { useId, useState, type ReactNode } from 'react'

/** The part of JSON Schema that a form has controls for; for anything else the user types JSON. */
export interface JsonSchema {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly description?: string
  readonly default?: unknown
  readonly minimum?: number
  readonly maximum?: number
  readonly maxLength?: number
  readonly anyOf?: readonly JsonSchema[]
}

/** The values that the user typed, by the names of the properties. */
export type Values = Record<string, unknown>

interface Props {
  readonly schema: JsonSchema
  readonly submit: string
  readonly onSubmit: (values: Values) => void
  /** Called with the values after every change, even while the form is incomplete. */
  readonly onChange?: (values: Values) => void
  readonly busy?: boolean
  readonly children?: ReactNode
}

/** A form from a schema: one labelled control for each property. */
export function SchemaForm({ schema, submit, onSubmit, onChange, busy, children }: Props) {
  const [texts, setTexts] = useState<Record<string, string>>({})
  const [fault, setFault] = useState('')
  const properties = Object.entries(schema.properties ?? {})

  const valuesOf = (all: Record<string, string>) =>
    Object.fromEntries(
      properties.flatMap(([name, property]) => {
        const text = all[name] ?? ''
        return text === '' ? [] : [[name, valueOf(text, property)]]
      }),
    )

  return (
    <form
      className="fields"
      onSubmit={(event) => {
        event.preventDefault()
        try {
          setFault('')
          onSubmit(valuesOf(texts))
        } catch (error) {
          setFault((error as Error).message)
        }
      }}
    >
      {properties.map(([name, property]) => (
        <Field
          key={name}
          name={name}
          property={property}
          required={schema.required?.includes(name) ?? false}
          value={texts[name] ?? ''}
          onChange={(text) => {
            const next = { ...texts, [name]: text }
            setTexts(next)
            try {
              onChange?.(valuesOf(next))
            } catch {
              // JSON that the user has not finished typing is no value yet.
            }
          }}
        />
      ))}
      {fault && (
        <p role="alert" className="fault">
          {fault}
        </p>
      )}
      <div className="row">
        <button type="submit" disabled={busy}>
          {submit}
        </button>
        {children}
      </div>
    </form>
  )
}

function Field(props: {
  name: string
  property: JsonSchema
  required: boolean
  value: string
  onChange: (text: string) => void
}) {
  const { name, property, required, value, onChange } = props
  const id = useId()
  const described = property.description ? `${id}-about` : undefined
  const common = {
    id,
    name,
    required,
    value,
    'aria-describedby': described,
    onChange: (event: { target: { value: string } }) => onChange(event.target.value),
  }
  return (
    <div className="field">
      <label htmlFor={id}>
        {name}
        {required && <span className="needed"> required</span>}
      </label>
      {control(property, common)}
      {described && <small id={described}>{property.description}</small>}
    </div>
  )
}

function control(property: JsonSchema, common: object & { value: string }) {
  const choices = property.const !== undefined ? [property.const] : property.enum
  const type = typeOf(property)
  if (choices || type === 'boolean')
    return (
      <select {...common}>
        <option value="">—</option>
        {(choices ?? [true, false]).map((choice) => (
          <option key={String(choice)} value={JSON.stringify(choice)}>
            {String(choice)}
          </option>
        ))}
      </select>
    )
  const hint = property.default === undefined ? '' : JSON.stringify(property.default)
  if (type === 'number' || type === 'integer')
    return (
      <input
        {...common}
        type="number"
        step={type === 'integer' ? 1 : 'any'}
        min={property.minimum}
        max={bounded(property.maximum)}
        placeholder={hint}
      />
    )
  if (type === 'string')
    return (
      <input
        {...common}
        maxLength={property.maxLength}
        placeholder={typeof property.default === 'string' ? property.default : ''}
      />
    )
  return (
    <textarea
      {...common}
      rows={3}
      spellCheck={false}
      placeholder={hint || (type === 'array' ? '[]' : '{}')}
    />
  )
}

const bounded = (maximum: number | undefined) =>
  maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER ? maximum : undefined

function typeOf(property: JsonSchema): string | undefined {
  const { type, anyOf } = property
  if (typeof type === 'string') return type
  if (type) return type.find((one) => one !== 'null')
  return anyOf?.map(typeOf).find((one) => one !== undefined && one !== 'null')
}

function valueOf(text: string, property: JsonSchema): unknown {
  const type = typeOf(property)
  if (type === 'string' && !property.enum && property.const === undefined) return text
  if (type === 'number' || type === 'integer') return Number(text)
  try {
    return JSON.parse(text)
  } catch {
    throw new Error(`This is not JSON: ${text.slice(0, 60)}`)
  }
}
