import type { z } from 'zod'
import type { AnyRoute, RouteContext, Schema, User } from '../../../plugin.ts'

/** The context of a route that only a signed-in user reaches. */
export type UserContext = RouteContext & { readonly user: User }

/** A route of a signed-in user whose input is what its schema says. */
export function userRoute<S extends Schema>(
  summary: string,
  input: S,
  run: (input: z.output<S>, ctx: UserContext) => unknown,
  answers?: AnyRoute['answers'],
): AnyRoute {
  // The edge parses by `input`, and lets no caller without a user through to a route of this kind.
  return { summary, input, answers, run: run as AnyRoute['run'] }
}

/** A route of the operator, who comes with a key and has no user. */
export function operatorRoute<S extends Schema>(
  summary: string,
  input: S,
  run: (input: z.output<S>) => unknown,
  answers?: AnyRoute['answers'],
): AnyRoute {
  return { auth: 'operator', summary, input, answers, run: run as AnyRoute['run'] } // parsed by `input` before
}
