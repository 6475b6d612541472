import { z } from 'zod'
import { didYouMean } from '#core'
import type { Warning } from './population.ts'

/** How many fields are named, and how many elements of a list are looked at. */
const [mostNamed, mostElements] = [5, 100]

/** Warns of fields of a body that its schema does not have: `estimater` would give the size of a mean, and nobody would know. */
export function unreadFields(schema: z.ZodType, sent: Uint8Array | undefined): Warning[] {
  const found: Warning[] = []
  if (!sent) return found
  try {
    gather(JSON.parse(new TextDecoder().decode(sent)), schema, '', found)
  } catch {
    return [] // a form has no fields within fields, and names each of its own
  }
  return found
}

function gather(value: unknown, schema: unknown, path: string, found: Warning[]): void {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault)
    return gather(value, schema.unwrap(), path, found)
  if (schema instanceof z.ZodArray && Array.isArray(value))
    for (const [at, element] of value.slice(0, mostElements).entries())
      gather(element, schema.element, `${path}${at}.`, found)
  if (!(schema instanceof z.ZodObject) || typeof value !== 'object' || value === null) return
  const names = Object.keys(schema.shape)
  for (const [name, member] of Object.entries(value)) {
    if (found.length === mostNamed) return
    if (names.includes(name)) {
      gather(member, schema.shape[name], `${path}${name}.`, found)
      continue
    }
    const meant = didYouMean(name, names)
    const hint = meant ? `; did you mean "${meant}"?` : ', and it changes nothing.'
    const code = 'UNKNOWN_FIELD'
    found.push({ code, message: `A request has no field "${path}${name.slice(0, 100)}"${hint}` })
  }
}
