import { didYouMean } from '#core'
import type { z } from 'zod'

/** The message for a parameter that is not among the known ones: what was meant, or else what there is. */
export function strange(name: string, known: readonly string[]): string {
  const meant = didYouMean(name, known)
  return `there is no parameter "${name}"; ${meant ? `did you mean "${meant}"?` : `it takes ${known.join(', ')}`}`
}

/** The most unknown parameters that a refusal lists. */
const mostListed = 20

/** Makes a schema refuse the parameters that it does not have, so that a misspelt filter does not let everything through. */
export function onlyKnown<Shape extends z.ZodRawShape>(schema: z.ZodObject<Shape>) {
  const known = Object.keys(schema.shape)
  return schema.loose().superRefine((given, ctx) => {
    const unknown = Object.keys(given).filter((key) => !known.includes(key))
    for (const key of unknown.slice(0, mostListed))
      ctx.addIssue({ code: 'custom', path: [key], message: strange(key, known) })
  })
}
