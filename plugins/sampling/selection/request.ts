import { z } from 'zod'
import { publishedSchema } from '../beacons/published.ts'
import { designIdSchema } from '../request.ts'
import { frameQuerySchema } from '../twins/frame-query.ts'
import { did, integer, shown, stratumName, wants, words } from '../wants.ts'

const anId = 'an id of 1 to 200 characters, none of them a line break'
/** An id of a frame. Nothing trims or folds the id, because the digest of the frame covers its bytes. */
export const idPattern = /^[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,200}$/
/** A list may hold millions of ids, so the check stops at the first faulty one, and reports only that one. */
const ids = z
  .custom<readonly string[]>(Array.isArray, wants('a list of ids'))
  .superRefine((list, ctx) => {
    const at = list.findIndex((id: unknown) => typeof id !== 'string' || !idPattern.test(id))
    if (at >= 0)
      ctx.addIssue({ code: 'custom', path: [at], message: `give ${anId}, not ${shown(list[at])}` })
  })
  .meta({ type: 'array', items: { type: 'string' } })
/** The ids of a frame, by stratum. */
export const frameSchema = z.record(
  stratumName('the name of a stratum'),
  ids,
  wants('ids by stratum'),
)

const aRound = 'the round that will be drawn: its number, or a name of at most 200 characters'
const aSource =
  '"drand:quicknet", "drand:default" or "drand:<chain hash>", "ledger:<chain id>", "verifier" or "caller"'
const sourceSchema = z
  .string(wants(aSource))
  .regex(
    /^(?:caller|verifier|drand:(?:quicknet|default|[0-9a-f]{64})|ledger:[A-Za-z0-9._-]{1,100})$/,
    wants(aSource),
  )
  .describe(
    'drand: a public beacon, verified offline; ledger: a block hash; verifier: the external verifier ' +
      'draws; caller: a value of the caller’s own, not verifiable and refused for submission',
  )
const roundSchema = z
  .union([words(200, aRound), integer(1, Number.MAX_SAFE_INTEGER, aRound)], wants(aRound))
  .describe('The future round whose value seeds the draw; of a ledger the height of a block')
const aTime = 'a time such as 2027-01-31T12:00:00Z'
const atSchema = z.iso
  .datetime({ offset: true, ...wants(aTime) })
  .describe('Of drand, instead of a round: the first round at or after this time')

/** A beacon of a commitment, and one of its rounds. */
export const beaconSchema = z
  .object({ source: sourceSchema, round: roundSchema.optional(), at: atSchema.optional() })
  .superRefine(({ source, round, at }, ctx) => {
    if (source !== 'verifier' && round === undefined && at === undefined)
      ctx.addIssue({ code: 'custom', path: ['round'], message: `missing; give ${aRound}` })
  })

const markSchema = z
  .enum(['included', 'none'], wants('"included" or "none"'))
  .describe('Whether the frame lists households that did not adopt: included, or none exist')
/** What a commitment says of the non-adopters in its frame. */
export const nonAdopterFields = {
  nonAdopters: markSchema.optional(),
  nonAdopterCounts: z
    .record(
      stratumName('the name of a stratum'),
      integer(0, 1_000_000_000, 'how many non-adopters the stratum has'),
      wants('counts by stratum'),
    )
    .optional()
    .describe('How many of the ids of each stratum are non-adopters'),
}
/** What a commitment says of the non-adopters in its frame, after the schema. */
export interface NonAdopters {
  readonly nonAdopters?: 'included' | 'none'
  readonly nonAdopterCounts?: Readonly<Record<string, number>>
}

/** The body of a commitment: a frame with its beacon, or only the beacon where the frame follows line by line. */
export const commitSchema = z
  .object({
    designId: designIdSchema,
    frame: frameSchema.optional(),
    frameQuery: frameQuerySchema.optional(),
    beacon: beaconSchema.optional(),
    round: roundSchema.optional(),
    source: sourceSchema.optional(),
    at: atSchema.optional(),
    extend: z
      .union([z.literal(true), z.literal('true')], wants('true'))
      .optional()
      .describe('Extend the last draw from its own frame to the size that has grown'),
    ...nonAdopterFields,
  })
  .transform((asked, ctx) => {
    const { designId, frame, frameQuery, beacon, round, source, at, extend, ...marks } = asked
    if (frame && frameQuery) {
      ctx.addIssue({ code: 'custom', path: ['frameQuery'], message: 'give a frame or its query' })
      return z.NEVER
    }
    const sent = { designId, frame, frameQuery, marks }
    if (extend !== undefined)
      return { ...sent, frame: undefined, frameQuery: undefined, beacon: undefined, extend: true }
    const named = beacon ?? (source === undefined ? undefined : { source, round, at })
    if (named === undefined) {
      // A design whose size has grown needs no beacon: its frame is drawn with the value of its first commitment.
      if (round === undefined && at === undefined)
        return { ...sent, beacon: undefined, extend: false }
      ctx.addIssue({ code: 'custom', path: ['source'], message: `missing; give ${aSource}` })
      return z.NEVER
    }
    if (named.source !== 'verifier' && named.round === undefined && named.at === undefined) {
      ctx.addIssue({ code: 'custom', path: ['round'], message: `missing; give ${aRound}` })
      return z.NEVER
    }
    return { ...sent, beacon: named, extend: false }
  })
/** A round of a beacon that passed the schema. */
export type Beacon = z.output<typeof beaconSchema>

const hex = 'the value of the beacon: 16 to 512 hexadecimal digits'
const aDigest = 'the SHA-256 of the frame as it is now, 64 hexadecimal digits'
const auditFileSchema = z.object({
  name: words(200, 'a file name of at most 200 characters').regex(
    /^[^\p{Cc}/\\\u2028\u2029]+$/u,
    wants('a file name without slashes and line breaks'),
  ),
  mediaType: z
    .string()
    .max(100)
    .regex(/^[\w.+-]+\/[\w.+-]+$/, wants('a media type such as text/csv'))
    .default('application/octet-stream'),
  content: z
    .string(wants('the file'))
    .min(1, wants('the file'))
    .max(4 * 1024 * 1024),
  encoding: z.enum(['utf8', 'base64'], wants('"utf8" or "base64"')).default('utf8'),
})
/** The body of a draw: the value of the committed round, or the ids that a verifier drew elsewhere. */
export const revealSchema = z.object({
  beaconHex: z
    .string(wants(hex))
    .toLowerCase()
    .regex(/^(?:[0-9a-f]{2}){8,256}$/, wants(hex))
    .optional(),
  published: publishedSchema
    .optional()
    .describe('The answer of a drand relay for the committed round, as it is: with its signature'),
  reserves: integer(0, 100_000, 'how many reserves each stratum gets').optional(),
  frameDigest: z
    .string(wants(aDigest))
    .toLowerCase()
    .regex(/^[0-9a-f]{64}$/, wants(aDigest))
    .optional()
    .describe('The digest of the frame as it is now; the draw is refused when it has changed'),
  external: z
    .object({
      verifier: did('the DID of the verifier'),
      method: words(4000, 'how the verifier selected'),
      strata: frameSchema,
      auditFile: auditFileSchema.optional(),
    })
    .optional(),
})
/** A request for a draw that passed the schema. */
export type Reveal = z.output<typeof revealSchema>
