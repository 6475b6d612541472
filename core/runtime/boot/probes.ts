import { z } from 'zod'
import type { AnyRoute } from '../../plugin.ts'

/** Whether this server should be sent requests. */
export class Readiness {
  readonly #databaseAnswers: () => Promise<boolean>
  #isLeaving = false

  /** `databaseAnswers` waits a second, and asks one question at a time however many want to know: probes have no limit. */
  constructor(databaseAnswers: () => Promise<boolean>) {
    this.#databaseAnswers = databaseAnswers
  }

  /** From now on balancers should look elsewhere. */
  leave(): void {
    this.#isLeaving = true
  }

  /** Why the server should not be sent requests; undefined when it should. */
  async lack(): Promise<string | undefined> {
    if (this.#isLeaving) return 'The server is about to stop.'
    return (await this.#databaseAnswers()) ? undefined : 'The database does not answer.'
  }
}

/** The keys of the routes that balancers and supervisors ask. No limit counts these, so no flood of others makes a server look dead. */
export const probeRouteKeys = ['GET /livez', 'GET /readyz'] as const

/** Whether a route is a probe. */
export const isProbe = (key: string): boolean => probeRouteKeys.some((probe) => probe === key)

/** The routes that balancers and supervisors ask. */
export function probeRoutes(
  readiness: Readiness,
): Record<(typeof probeRouteKeys)[number], AnyRoute> {
  return {
    'GET /livez': {
      auth: 'public',
      summary: 'Says that the event loop turns, and asks nothing else.',
      output: z.object({ live: z.literal(true) }),
      run(_, { koa }) {
        koa.set('Cache-Control', 'no-store')
        return { live: true }
      },
    },
    'GET /readyz': {
      auth: 'public',
      summary: 'Says whether this server should be sent requests; 503 while it stops.',
      answers: { 200: ['application/json'], 503: ['application/json'] },
      output: z.object({
        ready: z.boolean(),
        why: z.string().optional().describe('What keeps the server from being ready'),
      }),
      async run(_, { koa }) {
        koa.set('Cache-Control', 'no-store')
        const why = await readiness.lack()
        if (why === undefined) return { ready: true }
        koa.status = 503
        return { ready: false, why }
      },
    },
  }
}
