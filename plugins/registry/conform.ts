import { didYouMean, type Fault } from '#core'
import { isEntityId } from './did.ts'
import {
  typeNames,
  type PropertyRule,
  type ProtocolDefinition,
  type ProtocolRequest,
  type TypeName,
} from './request.ts'
import { refused } from './refusal.ts'
import { shown } from './wants.ts'

/** A protocol with all that it inherits: what entities are checked against. */
export interface Effective {
  readonly properties: Readonly<Record<string, PropertyRule>>
  /** Absent: the protocol leaves the roles open. */
  readonly relationships?: Readonly<Record<string, string>>
}

/** Adds the faults of a value, each with its path. */
type Check = (value: unknown, path: string, faults: Fault[]) => void

/** Finds what keeps properties from conforming to a protocol. */
export type Conform = (properties: Readonly<Record<string, unknown>>) => Fault[]

/** Makes the check of a protocol, once for each of its versions. */
export function conformTo({ properties }: Effective): Conform {
  const checks = new Map(Object.entries(properties).map(([name, rule]) => [name, checkOf(rule)]))
  const required = Object.entries(properties).flatMap(([name, rule]) =>
    rule.required ? [{ name, wanted: wantedBy(rule) }] : [],
  )
  return (given) => {
    const faults: Fault[] = []
    for (const { name, wanted } of required)
      if (!Object.hasOwn(given, name))
        faults.push({ path: `properties.${name}`, message: `missing; give ${wanted}` })
    for (const [name, value] of Object.entries(given)) {
      const check = checks.get(name)
      if (check) check(value, `properties.${name}`, faults)
      else faults.push(unknown(`properties.${name}`, name, 'property', checks.keys()))
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
  return { path, message: `the protocol has no ${what} "${name}"; ${hint}` }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isNumber = (value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value)

/** A date and a time with an offset (RFC 3339), of a day that there is. */
function isDateTime(value: unknown): boolean {
  if (typeof value !== 'string') return false
  const match =
    /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.\d{1,9})?(?:[Zz]|[+-](\d{2}):(\d{2}))$/.exec(
      value,
    )
  if (!match) return false
  const [year, month, day, hour, minute, second, offHour, offMinute] = match
    .slice(1)
    .map((part) => Number(part ?? 0)) as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ] // eight groups
  const days = new Date(Date.UTC(year, month, 0)).getUTCDate()
  return (
    month >= 1 &&
    month <= 12 &&
    day >= 1 &&
    (year < 100 || day <= days) &&
    day <= 31 &&
    hour <= 23 &&
    minute <= 59 &&
    second <= 60 &&
    offHour <= 23 &&
    offMinute <= 59
  )
}

const types: Readonly<Record<TypeName, { readonly wanted: string; is(value: unknown): boolean }>> =
  {
    string: { wanted: 'a string', is: (value) => typeof value === 'string' },
    number: { wanted: 'a number', is: isNumber },
    // Beyond 2^53 a whole number would come back as another one.
    integer: { wanted: 'a whole number', is: (value) => Number.isSafeInteger(value) },
    boolean: { wanted: 'true or false', is: (value) => typeof value === 'boolean' },
    object: { wanted: 'an object', is: isObject },
    array: { wanted: 'a list', is: Array.isArray },
    'date-time': {
      wanted: 'a date and time such as "2026-03-01T12:00:00Z"',
      is: isDateTime,
    },
    did: { wanted: 'a DID', is: (value) => typeof value === 'string' && isEntityId(value) },
  }

const wantedBy = (rule: PropertyRule): string =>
  rule.enum ? `one of ${rule.enum.map(shown).join(', ')}` : types[rule.type].wanted

function checkOf(rule: PropertyRule): Check {
  const { is } = types[rule.type]
  const wanted = wantedBy(rule)
  const items = rule.items === undefined ? undefined : checkOf(writtenOut(rule.items))
  const bounded = rule.min !== undefined || rule.max !== undefined
  const allowed = rule.enum?.map((value) => JSON.stringify(value))
  return (value, path, faults) => {
    if (!is(value) || (allowed && !allowed.includes(JSON.stringify(value))))
      faults.push({ path, message: `give ${wanted}, not ${shown(value)}` })
    else if (bounded && !isWithin(value, rule))
      faults.push({ path, message: `give ${boundsOf(rule)}, not ${shown(sizeOf(value))}` })
    else if (items && Array.isArray(value))
      for (const [at, item] of value.entries()) items(item, `${path}.${at}`, faults)
  }
}

/** What `min` and `max` bound: a number itself, the length of everything else. */
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

export const writtenOut = (rule: TypeName | PropertyRule): PropertyRule =>
  typeof rule === 'string' ? { type: rule } : rule

const ruleKeys = ['type', 'required', 'enum', 'min', 'max', 'items']
const boundable = new Set<string>(['string', 'number', 'integer', 'array'])
const unsafeNames = new Set(['__proto__', 'constructor', 'prototype'])

/** Checks what a protocol says of its properties and relationships, with suggestions for slips. */
export function readDefinition(request: ProtocolRequest): ProtocolDefinition {
  const faults: Fault[] = []
  const { properties = {}, relationships } = request
  for (const [name, rule] of Object.entries(properties)) {
    checkName(name, `properties.${name}`, faults)
    checkRule(rule, `properties.${name}`, faults)
  }
  for (const role of Object.keys(relationships ?? {}))
    checkName(role, `relationships.${role}`, faults)
  if (faults.length > 0) throw refused(faults)
  return {
    type: 'Protocol',
    ...(request.name !== undefined && { name: request.name }),
    ...(request.description !== undefined && { description: request.description }),
    ...(request.extends !== undefined && { extends: request.extends }),
    properties: properties as ProtocolDefinition['properties'], // checked above
    ...(relationships && { relationships }),
  }
}

function checkName(name: string, path: string, faults: Fault[]): void {
  if (unsafeNames.has(name)) faults.push({ path, message: `"${name}" cannot be a name` })
  else if (!/^[^\x00-\x1f\x7f]{1,100}$/u.test(name))
    faults.push({ path, message: 'give a name of 1 to 100 characters on one line' })
}

function checkRule(rule: unknown, path: string, faults: Fault[], depth = 0): void {
  const fault = (at: string, message: string) => void faults.push({ path: at, message })
  if (typeof rule === 'string') return checkType(rule, path, faults)
  if (!isObject(rule))
    return fault(path, `give the name of a type or { type, required?, … }, not ${shown(rule)}`)
  if (depth > 8) return fault(path, 'lists nest deeper than 8 levels')
  for (const key of Object.keys(rule))
    if (!ruleKeys.includes(key)) {
      const meant = didYouMean(key, ruleKeys)
      fault(
        `${path}.${key}`,
        `a property has no "${key}"; ${meant ? `did you mean "${meant}"?` : `it has ${ruleKeys.join(', ')}`}`,
      )
    }
  const { type, required, enum: values, min, max, items } = rule
  checkType(type, `${path}.type`, faults)
  if (required !== undefined && typeof required !== 'boolean')
    fault(`${path}.required`, `give true or false, not ${shown(required)}`)
  for (const [key, bound] of Object.entries({ min, max }))
    if (bound !== undefined && !isNumber(bound))
      fault(`${path}.${key}`, `give a number, not ${shown(bound)}`)
    else if (bound !== undefined && !boundable.has(String(type)))
      fault(`${path}.${key}`, `a ${String(type)} has no ${key}`)
  if (isNumber(min) && isNumber(max) && min > max)
    fault(`${path}.min`, `${min} is more than the max, ${max}`)
  if (items !== undefined && type !== 'array') fault(`${path}.items`, 'only an array has items')
  else if (items !== undefined) checkRule(items, `${path}.items`, faults, depth + 1)
  if (values === undefined) return
  if (!Array.isArray(values) || values.length === 0)
    return fault(`${path}.enum`, `give a list of values, not ${shown(values)}`)
  const known = types[type as TypeName]
  for (const [at, value] of values.entries())
    if (known && !known.is(value))
      fault(`${path}.enum.${at}`, `give ${known.wanted}, not ${shown(value)}`)
}

function checkType(type: unknown, path: string, faults: Fault[]): void {
  if ((typeNames as readonly unknown[]).includes(type)) return
  const meant = typeof type === 'string' ? didYouMean(type, typeNames) : undefined
  faults.push({
    path,
    message:
      type === undefined
        ? `missing; give one of ${typeNames.join(', ')}`
        : `there is no type ${shown(type)}; ${meant ? `did you mean "${meant}"?` : `give one of ${typeNames.join(', ')}`}`,
  })
}

/** A definition on top of what it extends: local values win. */
export function effectiveOf(definition: ProtocolDefinition, parent?: Effective): Effective {
  const relationships =
    parent?.relationships || definition.relationships
      ? { ...parent?.relationships, ...definition.relationships }
      : undefined
  const own = Object.fromEntries(
    Object.entries(definition.properties).map(([name, rule]) => [name, writtenOut(rule)]),
  )
  return {
    properties: { ...parent?.properties, ...own },
    ...(relationships && { relationships }),
  }
}
