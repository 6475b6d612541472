import type { z } from 'zod'
import type { AnyRoute, RouteContext, Schema, User } from '../../../plugin.ts'
import { proofOf } from '../../http/routes/access.ts'
import { routeOf } from '../../http/routes/route-of.ts'

/** The context of a route that only a signed-in user reaches. */
export type UserContext = RouteContext & { readonly user: User }

/** A route of a signed-in user whose input is what its schema says. */
export function userRoute<S extends Schema>(
  summary: string,
  input: S,
  run: (input: z.output<S>, ctx: UserContext) => unknown,
  answers?: AnyRoute['answers'],
): AnyRoute {
  // The edge lets no caller without a user through to a route of this kind.
  return routeOf({ summary, input, answers, run })
}

/** Sees to it that the caller is proved before anything of what comes of the request is told. */
export async function proved<T>({ koa }: UserContext, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } finally {
    await proofOf(koa)?.demand()
  }
}

/** A route of the operator, who comes with a key and has no user. */
export function operatorRoute<S extends Schema>(
  summary: string,
  input: S,
  run: (input: z.output<S>) => unknown,
  answers?: AnyRoute['answers'],
): AnyRoute {
  return routeOf({ auth: 'operator', summary, input, answers, run })
}
