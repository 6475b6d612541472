import { z } from 'zod'

/** The kinds of a memory. */
export const kinds = ['fact', 'preference', 'event', 'plan', 'wish'] as const
const time = z.iso.datetime()

/** Where a memory was said. */
export const sourceShape = z.object({
  sessionId: z.string(),
  runId: z.string(),
  quote: z.string(),
  at: time,
})

/** A memory as its person sees it. */
export const memoryShape = z.object({
  id: z.string(),
  name: z.string(),
  kind: z.enum(kinds),
  about: z.string(),
  slot: z.string().optional(),
  text: z.string(),
  quote: z.string(),
  source: sourceShape.optional(),
  sources: z.number().int(),
  by: z.enum(['asked', 'noticed', 'person']),
  validFrom: time,
  validTo: time.optional(),
  replacedBy: z.string().optional(),
  until: time.optional(),
  pinned: z.boolean(),
  uses: z.number().int(),
  confirmedAt: time,
  createdAt: time,
  /** Names this state of it: a change with If-Match does not overwrite another one. */
  etag: z.string(),
})
/** The same, with every place where it was said, and its neighbours in time. */
export const wholeShape = memoryShape.extend({
  allSources: z.array(sourceShape),
  replaced: z.array(z.string()),
})

/** What a person writes by hand. */
export const newMemory = z.object({
  text: z.string().min(1).max(1_000),
  kind: z.enum(kinds).optional(),
  about: z.string().trim().min(1).max(80).optional(),
  slot: z.string().max(40).optional(),
  until: time.optional(),
  pinned: z.boolean().optional(),
})
/** What a person corrects; null takes a slot or an end away. */
export const changedMemory = z.object({
  text: z.string().min(1).max(1_000).optional(),
  kind: z.enum(kinds).optional(),
  slot: z.string().max(40).nullable().optional(),
  until: time.nullable().optional(),
  pinned: z.boolean().optional(),
})
/** A page of the listing. */
export const listQuery = z.object({
  query: z.string().max(2_000).optional(),
  kind: z.enum(kinds).optional(),
  about: z.string().max(80).optional(),
  history: z.stringbool().default(false),
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z
    .string()
    .regex(/^\d{1,9}$/, 'a cursor of this listing')
    .optional(),
})
/** The listing. */
export const listShape = z.object({
  memories: z.array(memoryShape),
  total: z.number().int(),
  cursor: z.string().optional(),
  mode: z.enum(['ask', 'on', 'paused', 'off']),
  max: z.number().int(),
})
/** What a person lets the oracle do. */
export const settingsShape = z.object({
  mode: z.enum(['ask', 'on', 'paused', 'off']),
  sensitive: z.enum(['ask', 'never']),
})
/** One session, as far as memory goes. */
export const sessionShape = z.object({
  incognito: z.boolean(),
  noticed: z.array(z.string()),
  pending: z.number().int(),
})
/** One memory of an export. */
export const exportedShape = z.object({
  kind: z.enum(kinds),
  about: z.string().min(1).max(80),
  slot: z.string().optional(),
  value: z.string().max(1_000),
  text: z.string().min(1).max(1_000),
  by: z.enum(['asked', 'noticed', 'person']),
  validFrom: time,
  validTo: time.optional(),
  deniedAt: time.optional(),
  until: time.optional(),
  pinned: z.boolean(),
  uses: z.number().int().min(0).max(1_000_000_000).optional(),
  confirmedAt: time,
  createdAt: time,
  sources: z.array(sourceShape).max(100),
})
/** An export. */
export const exportShape = z.object({
  version: z.literal(1),
  settings: settingsShape,
  memories: z.array(exportedShape),
})

const mostImported = 2_000

/** What an import takes: the entries are checked one by one, so that the good ones are taken. */
export const importInput = z.object({
  version: z.literal(1),
  settings: z.unknown().optional(),
  memories: z.array(z.unknown()).max(mostImported),
})

/** What a run was shown, and what was noticed in it. */
export const usedShape = z.object({
  used: z.array(z.object({ id: z.string(), text: z.string() })),
  noticed: z.array(z.string()),
})

const figures = z.object({ p50: z.number(), p95: z.number(), count: z.number().int() })

/** What an operator sees. */
export const statusShape = z.object({
  people: z.record(z.string(), z.number()),
  memories: z.number(),
  /** The readings of turns: which are to come, and which were given up. */
  jobs: z.object({ waiting: z.number(), failed: z.number() }),
  /** How long prompts and readings took in this process, in milliseconds. */
  ms: z.object({ prompts: figures, readings: figures }),
  counts: z.record(z.string(), z.number()),
})
