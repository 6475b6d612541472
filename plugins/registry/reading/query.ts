import { z } from 'zod'
import { strange } from './known-parameters.ts'
import { readCursor } from './page.ts'
import { entityId, name, wants } from '../wants.ts'

/** Reads the number in a query. What is no number stays as it is, so that the message can quote it. */
export const inQuery = <T extends z.ZodNumber | z.ZodDefault<z.ZodNumber>>(number: T) =>
  z.preprocess((given) => {
    const isNumber =
      typeof given === 'string' && given.trim() !== '' && !Number.isNaN(Number(given))
    return isNumber ? Number(given) : given
  }, number)

const aLimit = (most: number) => `a whole number of 1 to ${most}`
const limit = (most: number, usual: number) =>
  inQuery(
    z
      .number(wants(aLimit(most)))
      .int(wants(aLimit(most)))
      .min(1, wants(aLimit(most)))
      .max(most, wants(aLimit(most)))
      .default(usual),
  )

const aCursor = 'the nextCursor of a list'
const cursor = z
  .string(wants(aCursor))
  .transform((text, ctx) => {
    const number = readCursor(text)
    if (number !== undefined) return number
    ctx.addIssue({ code: 'custom', message: `give ${aCursor}` })
    return z.NEVER
  })
  .optional()

/** The parameters that every list takes. */
export const pageSchema = z.object({ limit: limit(1000, 50), cursor })

const text = (what: string) => name(1024, what).optional()
const filters = {
  type: text('the name of an entity type'),
  protocol: text('the DID of a protocol'),
  controller: text('the DID of a controller'),
  class: text('the class of a twin'),
  q: z
    .string(wants('what to look for'))
    .max(200, wants('at most 200 characters'))
    .optional()
    .describe('Part of the id, the type or a text among the properties'),
  status: z
    .enum(['active', 'deactivated', 'all'], wants('"active", "deactivated" or "all"'))
    .optional(),
}

const aSort = 'the path of an indexed property or "@created", with "-" before it the greatest first'
const querying = {
  where: z
    .string(wants('a condition'))
    .optional()
    .describe("A condition on indexed properties, such as: fuel = 'ethanol' and power >= 3"),
  sort: text(aSort).describe('An indexed property or @created; with - the greatest first'),
  count: z.stringbool(wants('true or false')).optional().describe('Also how many there are'),
}

/** The body of `POST /v1/query`. */
export const querySchema = z.strictObject({
  where: z.string(wants('a condition')).optional(),
  parameters: z
    .record(
      z.string(),
      z.union([z.string(), z.number(), z.boolean()]),
      wants('an object of values'),
    )
    .optional()
    .describe('The values of $name in the condition'),
  sort: text(aSort),
  status: filters.status,
  count: z.boolean(wants('true or false')).optional(),
  limit: limit(1000, 50),
  cursor: z.string(wants(aCursor)).optional(),
})

function readAfter(cursor: string | undefined, ctx: z.RefinementCtx): number | undefined {
  const number = cursor === undefined ? undefined : readCursor(cursor)
  if (cursor !== undefined && number === undefined)
    ctx.addIssue({ code: 'custom', path: ['cursor'], message: `give ${aCursor}` })
  return number
}

const prefix = 'property.'
const listParameters = [
  ...Object.keys({ ...filters, ...querying }),
  'limit',
  'cursor',
  `${prefix}<name>`,
]

/** The query of a list: `?type=&q=&property.fuel=ethanol&limit=&cursor=`. An empty filter counts as absent. */
export const listSchema = pageSchema
  .extend({ cursor: z.string(wants(aCursor)).optional(), ...filters, ...querying })
  .loose()
  .transform(({ limit, cursor: given, where, sort, count, ...rest }, ctx) => {
    const isQuery = where !== undefined || sort !== undefined || count === true
    const after = isQuery ? undefined : readAfter(given, ctx)
    const properties = new Map<string, string>()
    for (const [key, value] of Object.entries(rest)) {
      if (!key.startsWith(prefix)) {
        if (!Object.hasOwn(filters, key))
          ctx.addIssue({ code: 'custom', path: [key], message: strange(key, listParameters) })
        continue
      }
      if (typeof value === 'string') properties.set(key.slice(prefix.length), value)
      else ctx.addIssue({ code: 'custom', path: [key], message: 'give one value' })
    }
    if (properties.size > 10)
      ctx.addIssue({ code: 'custom', message: 'ask for 10 properties at most' })
    const { type, protocol, controller, class: twin, q, status } = rest
    if (isQuery && properties.size > 0)
      ctx.addIssue({
        code: 'custom',
        message: 'with where, sort or count, name properties in where',
      })
    const wanted = Object.entries({ type, protocol, controller, class: twin, q }).filter(
      ([, value]) => value !== undefined && value !== '',
    )
    if (isQuery)
      return {
        limit,
        filter: {},
        query: {
          where,
          filter: Object.fromEntries(wanted),
          sort,
          count,
          status,
          limit,
          cursor: given,
        },
      }
    return { limit, after, filter: { ...Object.fromEntries(wanted), status, properties } }
  })

/** The filters by which the agent narrows a list of entities. */
export const findSchema = z.object({
  ...filters,
  properties: z
    .record(z.string(), z.union([z.string(), z.number(), z.boolean()]))
    .optional()
    .describe('Exact values of top-level properties'),
  limit: z.number().int().min(1).max(100).default(20),
  cursor: cursor.describe('nextCursor of the page before'),
})

const words = z
  .string()
  .transform((list) => new Set(list.split(',').flatMap((item) => item.trim() || [])))
  .transform((set) => (set.size > 0 ? set : undefined))
  .optional()

const directions = 'a list of out, in and both'
const aDepth = 'a whole number of at least 0'
const depth = inQuery(
  z
    .number(wants(aDepth))
    .int(wants(aDepth))
    .min(0, wants(aDepth))
    .max(1000, wants('at most 1000'))
    .default(1),
)

/** The query of a walk: `?depth=&direction=out,in,both&role=&kind=`. */
export const walkSchema = z.object({
  did: entityId('the DID of an entity'),
  depth: depth.describe('How many edges away; default 1, at most 10 are walked'),
  direction: z
    .string(wants(directions))
    .default('out')
    .transform((list, ctx) => {
      const set = new Set<'out' | 'in'>()
      for (const item of list.split(','))
        if (item === 'out' || item === 'in') set.add(item)
        else if (item === 'both') set.add('out').add('in')
        else ctx.addIssue({ code: 'custom', message: `give ${directions}, not "${item}"` })
      return set
    })
    .describe('out, in or both'),
  role: words.describe('Walk only edges of these roles, comma separated'),
  kind: words.describe('Return only nodes of these types, comma separated'),
})

/** The walk that a parsed query asks for. */
export const walkOf = ({
  depth,
  direction,
  role,
  kind,
}: Omit<z.output<typeof walkSchema>, 'did'>) => ({
  depth,
  directions: direction,
  roles: role,
  kinds: kind,
})

const anEventId = 'the id of an event: a whole number'
const eventId = z
  .string(wants(anEventId))
  .regex(/^\d{1,15}$/, wants(anEventId))
  .transform(Number)

/** The query of the feed. */
export const feedSchema = z.object({
  after: eventId.optional().describe('Like the header Last-Event-ID, which goes first'),
  did: text('the id that events are about'),
  type: text('the type that events are about'),
  kind: text('entity, protocol, claim or credential'),
})

/** The schema of the id in a `Last-Event-ID` header. */
export const lastEventId = eventId
