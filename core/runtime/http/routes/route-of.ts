import type { z } from 'zod'
import type { AnyRoute, RouteContext, Schema } from '../../../plugin.ts'

/** A route whose handler takes the output of its input schema. */
interface RouteWith<S extends Schema, Context extends RouteContext> extends Omit<
  AnyRoute,
  'input' | 'run'
> {
  readonly input: S
  run(input: z.output<S>, ctx: Context): unknown
}

/** One of the kernel's own routes: the schema of its input gives its handler the type of what the edge has parsed. */
export const routeOf = <S extends Schema, Context extends RouteContext = RouteContext>(
  route: RouteWith<S, Context>,
): AnyRoute => route
