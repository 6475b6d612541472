import { z } from 'zod'
import { giveWay } from '#core'
import { Frame } from '../selection/frame.ts'
import { conflicting, invalid } from '../refusal.ts'
import type { SamplingDatabase } from '../tables.ts'
import { shown, wants } from '../wants.ts'
import type { Asking, Twins } from './twins.ts'

/** A frame as a query of the registry: the twins of which a condition holds, by the value of a property. */
export const frameQuerySchema = z
  .strictObject(
    {
      where: z
        .string(wants('a condition'))
        .max(10_000, wants('a condition of at most 10000 bytes')),
      parameters: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).optional(),
      stratum: z
        .string()
        .min(1)
        .max(200)
        .optional()
        .describe('The path of the property that holds the stratum'),
    },
    wants('an object: { where, parameters?, stratum? }'),
  )
  .describe(
    'A query of the registry whose twins are the frame, such as the households of a project',
  )
/** A query whose twins are a frame. */
export type FrameQuery = z.output<typeof frameQuerySchema>

/** How many twins are taken between two looks at the clock. */
const twinsInStretch = 1000

/** Reads the twins of a query into a frame. A twin without a stratum refuses the frame: a sample of a part represents nothing. */
export async function frameOfQuery(
  registry: Twins | undefined,
  { where, parameters, stratum }: FrameQuery,
  asking: Asking,
): Promise<Frame> {
  if (!registry)
    throw conflicting(
      'A frame by query needs the plugin registry, which is off.',
      'Send the ids as "frame", or turn the registry on.',
      { field: 'frameQuery', value: where },
    )
  const frame = new Frame()
  let taken = 0
  for await (const { did, value } of registry.twins({ where, parameters }, stratum, asking)) {
    if (stratum !== undefined && (typeof value !== 'string' || value.trim() === ''))
      throw invalid(
        'frameQuery.stratum',
        `${did} has no text at "${stratum}", but ${shown(value)}`,
        'Give every twin of the query its stratum, or narrow the query.',
      )
    frame.add(typeof value === 'string' ? value.trim() : 'all', did)
    if (++taken % twinsInStretch === 0) await giveWay()
  }
  return frame
}

/** The queries that frames came from, by design and digest. */
export class FrameQueries {
  readonly #db: SamplingDatabase

  constructor(db: SamplingDatabase) {
    this.#db = db
  }

  /** Keeps by which query a frame was found. */
  async keep(design: string, digest: string, query: FrameQuery): Promise<void> {
    await this.#db
      .insertInto('sampling_frame_queries')
      .values({ design_id: design, frame_digest: digest, query: JSON.stringify(query) })
      .onConflict((conflict) => conflict.columns(['design_id', 'frame_digest']).doNothing())
      .execute()
  }

  /** The query of a committed frame; undefined where its ids were sent. */
  async read(design: string, digest: string): Promise<FrameQuery | undefined> {
    const row = await this.#db
      .selectFrom('sampling_frame_queries')
      .select('query')
      .where('design_id', '=', design)
      .where('frame_digest', '=', digest)
      .executeTakeFirst()
    return row && JSON.parse(row.query)
  }

  /** What the query of a committed frame finds now: its digest, and whether that is another one. */
  async now(
    design: string,
    committed: string,
    registry: Twins | undefined,
    asking: Asking,
  ): Promise<FrameNow | undefined> {
    const query = await this.read(design, committed)
    if (!query || !registry) return undefined
    const frame = await frameOfQuery(registry, query, asking)
    // The digest covers the sorted ids, which the frame works out part by part.
    for (const _ of frame.parts()) await giveWay()
    const digest = frame.digest()
    return { query, digest, hasChanged: digest !== committed }
  }
}

/** What a query finds now, beside what it found at the commitment. */
export interface FrameNow {
  readonly query: FrameQuery
  readonly digest: string
  readonly hasChanged: boolean
}
