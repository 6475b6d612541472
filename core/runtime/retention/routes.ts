import { z } from 'zod'
import type { AnyRoute } from '../../plugin.ts'
import { type MeasuredStore, readStorage, type Storage } from './storage.ts'

/** The key of the route by which the operator sees what takes room on the disk. */
export const storageRouteKeys = ['GET /storage'] as const

const size = { kind: z.string(), rows: z.number(), bytes: z.number() }

/** The route by which the operator sees what takes room on the disk. */
export function storageRoutes(
  store: MeasuredStore,
): Record<(typeof storageRouteKeys)[number], AnyRoute> {
  let reading: Promise<Storage> | undefined
  return {
    'GET /storage': {
      auth: 'operator',
      summary: 'How many rows and bytes the database has, by kind and by table, and how it grows.',
      limit: { max: 30, perMs: 60_000 },
      output: z.object({
        database: z.enum(['sqlite', 'postgres']),
        bytes: z.number(),
        freeBytes: z.number(),
        growthPerDay: z
          .number()
          .optional()
          .describe('Bytes a day over the last week; absent before a day has gone by'),
        diskFreeBytes: z.number().optional().describe('What the disk of an SQLite file has left'),
        daysLeft: z
          .number()
          .optional()
          .describe('In how many days the disk is full at this growth'),
        kinds: z.array(z.object(size)),
        tables: z.array(z.object({ name: z.string(), ...size })),
      }),
      run() {
        // Whoever asks meanwhile gets the same figures.
        reading ??= readStorage(store).finally(() => (reading = undefined))
        return reading
      },
    },
  }
}
