import type { Fault } from '#core'
import { unknown } from '../protocols/conform.ts'
import type { Effective } from '../protocols/definition.ts'
import { refused } from '../refusal.ts'
import type { TypeName } from '../request.ts'
import type { IndexType } from './tables.ts'
import { namesOf } from './values.ts'

/** The most indexes of one protocol: each is written with every entity. */
const mostIndexes = 32
/** How many names a path has at most. */
const mostNames = 8

const indexable: Readonly<Record<TypeName, readonly IndexType[]>> = {
  string: ['string'],
  number: ['number'],
  integer: ['number'],
  boolean: ['boolean'],
  object: ['geo'],
  array: ['string', 'number', 'boolean', 'date-time'],
  'date-time': ['date-time', 'string'],
  did: ['string'],
}

/** Refuses indexes of properties that a protocol does not have, or that hold something else. */
export function checkIndexes({ indexes = {}, properties }: Effective): void {
  const faults: Fault[] = []
  const paths = Object.entries(indexes)
  if (paths.length > mostIndexes)
    faults.push({ path: 'indexes', message: `declare at most ${mostIndexes} indexes` })
  for (const [path, type] of paths.slice(0, mostIndexes)) {
    const at = `indexes.${path}`
    const [root = '', ...inner] = namesOf(path)
    const rule = Object.hasOwn(properties, root) ? properties[root] : undefined
    if (path.length > 200 || inner.length >= mostNames || inner.includes('') || root === '')
      faults.push({ path: at, message: 'give names with dots between them, eight at most' })
    else if (!rule) faults.push(unknown(at, root, 'property', Object.keys(properties)))
    else if (inner.length > 0 && rule.type !== 'object')
      faults.push({
        path: at,
        message: `"${root}" is of the type ${rule.type}, and holds no "${inner.join('.')}"`,
      })
    else if (inner.length === 0 && !indexable[rule.type].includes(type))
      faults.push({
        path: at,
        message: `"${root}" is of the type ${rule.type}; index it as ${indexable[rule.type].join(' or ')}`,
      })
  }
  if (faults.length > 0) throw refused(faults)
}
