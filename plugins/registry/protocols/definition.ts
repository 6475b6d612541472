import { didYouMean, type Fault } from '#core'
import { isNumber, types } from './property-types.ts'
import { mostFaults, refused } from '../refusal.ts'
import {
  typeNames,
  type PropertyRule,
  type ProtocolDefinition,
  type ProtocolRequest,
  type TypeName,
} from '../request.ts'
import type { DeclaredEvaluation, MintingSpec } from '../evaluation/definition.ts'
import type { TwinClass } from '../entities/kinds.ts'
import type { IndexType } from '../indexes/tables.ts'
import { isObject, shown } from '../wants.ts'

/** A protocol with all that it inherits. The registry checks entities against it. */
export interface Effective {
  readonly properties: Readonly<Record<string, PropertyRule>>
  /** Absent: the protocol leaves the roles open. */
  readonly relationships?: Readonly<Record<string, string>>
  /** Present: each entity of the protocol is a credit for an approved claim. A text says what one credit stands for. */
  readonly mints?: true | string | MintingSpec
  /** How claims are evaluated without a hand. It is not inherited: who customises a protocol says anew who stands behind it. */
  readonly evaluation?: DeclaredEvaluation
  /** How the properties at these paths are indexed. */
  readonly indexes?: Readonly<Record<string, IndexType>>
  /** The class of every entity that follows the protocol. */
  readonly class?: TwinClass
  /** Properties of which each entity has one at least; only a protocol of physical twins names some. */
  readonly identifiedBy?: readonly string[]
}

/** A rule in full, where a protocol may give only the name of a type. */
export const writtenOut = (rule: TypeName | PropertyRule): PropertyRule =>
  typeof rule === 'string' ? { type: rule } : rule

const ruleKeys = ['type', 'required', 'enum', 'min', 'max', 'items']
const boundable = new Set<string>(['string', 'number', 'integer', 'array'])
const unsafeNames = new Set(['__proto__', 'constructor', 'prototype'])

/** Checks the properties and relationships of a protocol, and suggests corrections for misspelt names. */
export function readDefinition(request: ProtocolRequest): ProtocolDefinition {
  const faults: Fault[] = []
  const { properties = {}, relationships } = request
  for (const [name, rule] of Object.entries(properties)) {
    if (faults.length >= mostFaults) break
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
    ...(request.mints !== undefined && { mints: request.mints }),
    ...(request.evaluation && { evaluation: request.evaluation }),
    ...(request.indexes && { indexes: request.indexes }),
    ...(request.class !== undefined && { class: request.class }),
    ...(request.identifiedBy && { identifiedBy: request.identifiedBy }),
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
  for (const [at, value] of values.entries()) {
    if (faults.length >= mostFaults) break
    if (known && !known.is(value))
      fault(`${path}.enum.${at}`, `give ${known.wanted}, not ${shown(value)}`)
  }
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

/**
 * A definition with what it inherits; values of the definition replace values of its parent. `by` stands behind the
 * evaluation that the definition declares.
 */
export function effectiveOf(
  definition: ProtocolDefinition,
  parent?: Effective,
  by = '',
): Effective {
  const relationships =
    parent?.relationships || definition.relationships
      ? { ...parent?.relationships, ...definition.relationships }
      : undefined
  const own = Object.fromEntries(
    Object.entries(definition.properties).map(([name, rule]) => [name, writtenOut(rule)]),
  )
  // A protocol that extends one whose entities are credits cannot undo that: its entities are credits too.
  const mints = definition.mints ?? parent?.mints
  const twin = definition.class ?? parent?.class
  const identifiedBy = definition.identifiedBy ?? parent?.identifiedBy
  const indexes =
    parent?.indexes || definition.indexes
      ? { ...parent?.indexes, ...definition.indexes }
      : undefined
  return {
    properties: { ...parent?.properties, ...own },
    ...(relationships && { relationships }),
    ...(mints !== undefined && { mints }),
    ...(indexes && { indexes }),
    ...(twin !== undefined && { class: twin }),
    ...(identifiedBy && { identifiedBy }),
    ...(definition.evaluation && { evaluation: { ...definition.evaluation, by } }),
  }
}
