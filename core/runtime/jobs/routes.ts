import { z } from 'zod'
import type { AnyRoute } from '../../plugin.ts'
import { routeOf } from '../http/routes/route-of.ts'
import type { AppJobs } from './jobs.ts'

const listInput = z.object({
  state: z.enum(['due', 'running', 'dead', 'done']).optional(),
  plugin: z.string().max(100).optional().describe('Only the jobs of this plugin'),
  limit: z.coerce.number().int().min(1).max(200).default(50),
  offset: z.coerce.number().int().min(0).max(1_000_000).default(0),
})
const idInput = z.object({ id: z.string().max(100) })

const jobShape = z.object({
  id: z.string(),
  plugin: z.string(),
  name: z.string(),
  key: z.string(),
  state: z.enum(['due', 'running', 'dead', 'done']),
  orphaned: z.boolean().describe('True when no plugin of this server has the job'),
  schedule: z.string().optional().describe('The plan of a job that runs by itself'),
  user: z.string().optional().describe('The DID whose data the job is about'),
  attempts: z.number(),
  dueAt: z.string(),
  createdAt: z.string(),
  startedAt: z.string().optional(),
  endedAt: z.string().optional(),
  error: z.string().optional().describe('What the last attempt that failed said'),
})

/** The keys of the operator's routes of jobs. */
export const jobRouteKeys = ['GET /jobs', 'POST /jobs/:id/retry', 'DELETE /jobs/:id'] as const

/** The operator's routes of jobs. The data of a job is never shown. */
export function jobRoutes(jobs: AppJobs): Record<(typeof jobRouteKeys)[number], AnyRoute> {
  return {
    'GET /jobs': routeOf({
      auth: 'operator',
      summary: 'The jobs of plugins, the newest first, without their data.',
      input: listInput,
      output: z.object({ jobs: z.array(jobShape), total: z.number() }),
      run: (input) => jobs.list(input),
    }),
    'POST /jobs/:id/retry': routeOf({
      auth: 'operator',
      summary: 'Begins a dead job anew, and a job between two attempts at once.',
      input: idInput,
      output: jobShape,
      run: ({ id }) => jobs.retry(id),
    }),
    'DELETE /jobs/:id': routeOf({
      auth: 'operator',
      summary: 'Deletes a job that does not run.',
      input: idInput,
      output: z.object({ message: z.string() }),
      async run({ id }) {
        await jobs.delete(id)
        return { message: 'The job was deleted.' }
      },
    }),
  }
}
