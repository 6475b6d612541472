import { RuntimeError } from '../../../errors.ts'
import type { AnyRoute, WrittenRoute } from '../../../plugin.ts'

/** The routes of one plugin as the kernel serves them, and a fault for each limit that could not be read from the environment. */
interface Settled {
  readonly routes: Readonly<Record<string, AnyRoute>>
  readonly faults: readonly RuntimeError[]
}

/**
 * Asks each `limit` that is a function of the plugin's variables, once. `checkRoutes` looks at the numbers later. A plugin
 * that the boot leaves out has no `env`, and nobody asks its limits.
 */
export function settleLimits(
  owner: string,
  written: Readonly<Record<string, WrittenRoute>>,
  env: Readonly<Record<string, unknown>> | undefined,
): Settled {
  const faults: RuntimeError[] = []
  const settle = (key: string, route: WrittenRoute): AnyRoute => {
    const limit = route?.limit
    if (typeof limit !== 'function') return route as AnyRoute // the only difference between the two types is this function
    const { limit: _, ...rest } = route
    if (env === undefined) return rest
    try {
      const made: unknown = limit(env)
      if (typeof made === 'object' && made !== null)
        return { ...rest, limit: made as NonNullable<AnyRoute['limit']> }
      faults.push(faultOf(key, owner, `limit(env) returned ${String(made)}`))
    } catch (thrown) {
      const sentence = thrown instanceof Error ? thrown.message : String(thrown)
      faults.push(faultOf(key, owner, `limit(env) threw: ${sentence}`))
    }
    return rest
  }
  const entries = Object.entries(written).map(([key, route]) => [key, settle(key, route)] as const)
  return { routes: Object.fromEntries(entries), faults }
}

const faultOf = (key: string, owner: string, what: string) =>
  new RuntimeError('ROUTE_INVALID', `The route "${key}" of ${owner} is malformed: ${what}.`, {
    hint: 'Return { max, perMs }: two whole numbers above zero.',
    details: { key, owner },
  })
