import { didYouMean, type Fault } from '#core'
import { writtenOut, type Effective } from './definition.ts'
import { identityFault } from './identity.ts'
import { types } from './property-types.ts'
import { mostFaults } from '../refusal.ts'
import type { PropertyRule } from '../request.ts'
import { shown } from '../wants.ts'

/** Adds the faults of a value, each with its path. */
type Check = (value: unknown, path: string, faults: Fault[]) => void

/** Finds what keeps properties from conforming to a protocol. */
export type Conform = (properties: Readonly<Record<string, unknown>>) => Fault[]

/** How many unknown names the faults suggest a correction for; finding a similar name takes time. */
const mostHints = 10

/** Compiles the check of one version of a protocol. */
export function conformTo(effective: Effective): Conform {
  const { properties } = effective
  const checks = new Map(Object.entries(properties).map(([name, rule]) => [name, checkOf(rule)]))
  const required = Object.entries(properties).flatMap(([name, rule]) =>
    rule.required ? [{ name, wanted: wantedBy(rule) }] : [],
  )
  return (given) => {
    const faults: Fault[] = []
    const unidentified = identityFault(effective, given)
    if (unidentified) faults.push(unidentified)
    for (const { name, wanted } of required)
      if (!Object.hasOwn(given, name))
        faults.push({ path: `properties.${name}`, message: `missing; give ${wanted}` })
    for (const [name, value] of Object.entries(given)) {
      if (faults.length >= mostFaults) break
      const check = checks.get(name)
      if (check) check(value, `properties.${name}`, faults)
      else if (faults.length < mostHints)
        faults.push(unknown(`properties.${name}`, name, 'property', checks.keys()))
      else faults.push(unheardOf(`properties.${name}`, name, 'property'))
    }
    return faults
  }
}

/** The fault of a name that a protocol does not have. */
export function unknown(path: string, name: string, what: string, names: Iterable<string>): Fault {
  const all = [...names]
  const meant = didYouMean(name, all)
  const hint = meant
    ? `did you mean "${meant}"?`
    : all.length > 0
      ? `it has ${all.slice(0, 20).join(', ')}`
      : 'it has none'
  const { message } = unheardOf(path, name, what)
  return { path, message: `${message}; ${hint}` }
}

const unheardOf = (path: string, name: string, what: string): Fault => ({
  path,
  message: `the protocol has no ${what} "${name}"`,
})

/** How many values of an enum a fault lists. */
const mostNamed = 20

function wantedBy({ type, enum: values }: PropertyRule): string {
  if (!values) return types[type].wanted
  const more = values.length > mostNamed ? ` and ${values.length - mostNamed} more` : ''
  return `one of ${values.slice(0, mostNamed).map(shown).join(', ')}${more}`
}

function checkOf(rule: PropertyRule): Check {
  const { is } = types[rule.type]
  const wanted = wantedBy(rule)
  const items = rule.items === undefined ? undefined : checkOf(writtenOut(rule.items))
  const bounded = rule.min !== undefined || rule.max !== undefined
  const allowed = rule.enum && new Set(rule.enum.map((value) => JSON.stringify(value)))
  return (value, path, faults) => {
    if (!is(value) || (allowed && !allowed.has(JSON.stringify(value))))
      faults.push({ path, message: `give ${wanted}, not ${shown(value)}` })
    else if (bounded && !isWithin(value, rule))
      faults.push({ path, message: `give ${boundsOf(rule)}, not ${shown(sizeOf(value))}` })
    else if (items && Array.isArray(value))
      for (const [at, item] of value.entries()) {
        if (faults.length >= mostFaults) break
        items(item, `${path}.${at}`, faults)
      }
  }
}

/** The size that `min` and `max` bound: the value of a number, the length of a text or a list. */
const sizeOf = (value: unknown): number =>
  typeof value === 'number' ? value : [...(value as string | unknown[])].length

function isWithin(value: unknown, { min = -Infinity, max = Infinity }: PropertyRule): boolean {
  const size = sizeOf(value)
  return size >= min && size <= max
}

function boundsOf({ type, min, max }: PropertyRule): string {
  const of =
    type === 'string' ? 'a length of ' : type === 'array' ? 'a number of items of ' : 'a number of '
  if (min === undefined) return `${of}at most ${max}`
  return max === undefined ? `${of}at least ${min}` : `${of}${min} to ${max}`
}
