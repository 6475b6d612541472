import { type FormEvent, useId, useState } from 'react'
import { straight } from './markdown/links.ts'
import { useWords } from './words.ts'

/** Arguments of a call, by name. */
export type Args = Readonly<Record<string, unknown>>

/** What does not fit in an argument, as a server says it: `path` is the argument's name, and what lies within it. */
export interface ArgsFault {
  readonly path: string
  readonly message: string
}

/** The props of `ArgsForm`. */
export interface ArgsFormProps {
  readonly args: Args
  /** The tool's schema, as JSON Schema; without it the arguments are written as JSON. */
  readonly schema?: Args
  /** What the server found in the arguments that were sent last. */
  readonly faults: readonly ArgsFault[]
  readonly isBusy: boolean
  readonly onSubmit: (args: Record<string, unknown>) => void
}

/** More fields than this make no form that anybody reads: then the arguments are written as JSON. */
const mostFields = 40
/** The field of all arguments at once. */
const whole = ''

interface Field {
  readonly name: string
  readonly kind: 'text' | 'number' | 'choice' | 'json'
  readonly choices: readonly unknown[]
  readonly about: string
  readonly isNeeded: boolean
}

/** The arguments of a call as a form: a field for each by its kind, and what does not fit stands at its field. */
export function ArgsForm({ args, schema, faults, isBusy, onSubmit }: ArgsFormProps) {
  const words = useWords()
  const id = useId()
  const fields = fieldsOf(schema, args)
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({})
  const [own, setOwn] = useState<readonly ArgsFault[]>([])
  const textOf = (field: Field) => ownOf(texts, field.name) ?? shownIn(field, args)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    const { values, wrong } = valuesOf(fields, textOf, args)
    setOwn(wrong)
    if (wrong.length === 0) onSubmit(values)
  }
  const told = [...own, ...faults]
  const faultsAt = (name: string) => told.filter(({ path }) => fieldOf(path, fields) === name)
  return (
    <form className="oc-args" onSubmit={submit} noValidate>
      {fields.map((field) => {
        const { name, about, isNeeded } = field
        const wrong = faultsAt(name)
        const described = [about && `${id}${name}about`, wrong.length > 0 && `${id}${name}fault`]
        return (
          <div className="oc-field" key={name} data-state={wrong.length > 0 ? 'wrong' : 'fine'}>
            <label htmlFor={id + name}>
              {name === whole ? words.edit : <bdi dir="ltr">{straight(name)}</bdi>}
              {isNeeded && ' *'}
            </label>
            <Control
              field={field}
              value={textOf(field)}
              onChange={(text) => setTexts((now) => ({ ...now, [name]: text }))}
              of={{
                id: id + name,
                'aria-invalid': wrong.length > 0,
                'aria-describedby': described.filter(Boolean).join(' ') || undefined,
              }}
            />
            {about && <small id={`${id}${name}about`}>{straight(about)}</small>}
            {wrong.length > 0 && (
              <p id={`${id}${name}fault`} role="alert" dir="auto">
                {wrong.map(({ message }) => straight(message)).join(' ')}
              </p>
            )}
          </div>
        )
      })}
      <button type="submit" disabled={isBusy}>
        {words.approve}
      </button>
    </form>
  )
}

interface ControlProps {
  readonly field: Field
  readonly value: string
  readonly onChange: (text: string) => void
  readonly of: Readonly<Record<string, unknown>>
}

function Control({ field, value, onChange, of }: ControlProps) {
  const { kind, choices } = field
  const changed = (event: { target: { value: string } }) => onChange(event.target.value)
  if (kind === 'choice')
    return (
      <select {...of} value={value} onChange={changed}>
        {!field.isNeeded && <option value="">—</option>}
        {choices.map((choice) => (
          <option key={JSON.stringify(choice)} value={JSON.stringify(choice)}>
            {straight(String(choice))}
          </option>
        ))}
      </select>
    )
  if (kind === 'number')
    return <input {...of} dir="ltr" inputMode="decimal" value={value} onChange={changed} />
  if (kind === 'text' && value.length < 80 && !value.includes('\n'))
    return <input {...of} dir="auto" value={value} onChange={changed} />
  return (
    <textarea
      {...of}
      dir={kind === 'json' ? 'ltr' : 'auto'}
      rows={field.name === whole ? 6 : 3}
      spellCheck={kind === 'text'}
      value={value}
      onChange={changed}
    />
  )
}

/** The fields of a schema, and of arguments that it does not name; one for all where there is no schema to go by. */
function fieldsOf(schema: Args | undefined, args: Args): readonly Field[] {
  const { properties, required } = Object(schema) as { properties?: unknown; required?: unknown }
  const known = Object.entries(Object(properties) as Record<string, unknown>)
  if (known.length === 0 || known.length > mostFields)
    return [{ name: whole, kind: 'json', choices: [], about: '', isNeeded: false }]
  const needed = new Set(Array.isArray(required) ? required : [])
  const names = new Set(known.map(([name]) => name))
  const others = Object.keys(args).filter((name) => !names.has(name))
  return [
    ...known.map(([name, one]) => ({ name, ...kindOf(one), isNeeded: needed.has(name) })),
    ...others.map((name) => ({ name, ...kindOf({}), isNeeded: false })),
  ]
}

function kindOf(property: unknown): Pick<Field, 'kind' | 'choices' | 'about'> {
  const { type, enum: listed, const: only, description }: Record<string, unknown> = Object(property)
  const about = typeof description === 'string' ? description : ''
  if (Array.isArray(listed)) return { kind: 'choice', choices: listed, about }
  if (only !== undefined) return { kind: 'choice', choices: [only], about }
  if (type === 'boolean') return { kind: 'choice', choices: [true, false], about }
  if (type === 'number' || type === 'integer') return { kind: 'number', choices: [], about }
  return { kind: type === 'string' ? 'text' : 'json', choices: [], about }
}

/** An argument as its field shows it. */
function shownIn({ name, kind }: Field, args: Args): string {
  const value = name === whole ? args : ownOf(args, name)
  if (value === undefined) return ''
  if (kind === 'text' && typeof value === 'string') return value
  return JSON.stringify(value, null, kind === 'json' ? 2 : 0)
}

/** What the fields say, as arguments; a field that says nothing is left out where it may be. */
function valuesOf(fields: readonly Field[], textOf: (field: Field) => string, args: Args) {
  const values: [string, unknown][] = []
  const wrong: ArgsFault[] = []
  for (const field of fields) {
    const { name, kind, isNeeded } = field
    const text = textOf(field)
    if (kind === 'text') {
      if (text !== '' || isNeeded || ownOf(args, name) === '') values.push([name, text])
      continue
    }
    if (text.trim() === '' && name !== whole) continue
    try {
      values.push([name, kind === 'number' ? numberIn(text) : JSON.parse(text)])
    } catch (thrown) {
      wrong.push({ path: name, message: thrown instanceof Error ? thrown.message : String(thrown) })
    }
  }
  const all = values.find(([name]) => name === whole)
  if (!all) return { values: Object.fromEntries(values), wrong }
  const isObject = typeof all[1] === 'object' && all[1] !== null && !Array.isArray(all[1])
  if (!isObject) wrong.push({ path: whole, message: '{ … }' })
  return { values: { ...Object(all[1]) }, wrong }
}

/** A value by a name that a model may have chosen: never what every object has. */
const ownOf = <T,>(all: Readonly<Record<string, T>>, name: string): T | undefined =>
  Object.hasOwn(all, name) ? all[name] : undefined

/** A number as people write it; the server says what is none. */
function numberIn(text: string): unknown {
  const number = Number(text.trim())
  return Number.isFinite(number) ? number : text
}

/** The field that a fault belongs to: the argument that its path begins with, which may stand behind `args.`. */
function fieldOf(path: string, fields: readonly Field[]): string {
  const names = [path, path.replace(/^args\.?/, '')].map((from) =>
    fields.find(({ name }) => from === name || from.startsWith(`${name}.`)),
  )
  return (names[0] ?? names[1] ?? fields[0])?.name ?? whole
}
