import { isDeepStrictEqual } from 'node:util'

/** An operation of JSON Patch. */
export type Operation =
  | { readonly op: 'add' | 'replace'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string }

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const segment = (key: string) => key.replaceAll('~', '~0').replaceAll('/', '~1')

/** What makes one state the other. Lists are replaced as a whole. */
export function patchOf(before: Fields, after: Fields, path = ''): Operation[] {
  const operations: Operation[] = []
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [old, value] = [before[key], after[key]]
    const here = `${path}/${segment(key)}`
    if (isDeepStrictEqual(old, value)) continue
    if (value === undefined) operations.push({ op: 'remove', path: here })
    else if (old === undefined) operations.push({ op: 'add', path: here, value })
    else if (isFields(old) && isFields(value)) operations.push(...patchOf(old, value, here))
    else operations.push({ op: 'replace', path: here, value })
  }
  return operations
}
