import { z } from 'zod'
import { reply, type RouteContext, text } from '#core'
import { invalidInput } from '../request.ts'
import type { Adapter } from './adapter.ts'
import type { Aggregators } from './aggregators.ts'
import type { Body } from './translate.ts'

/** A body of any fields, because each aggregator names its own. */
export const bodySchema = z.record(z.string(), z.unknown())

/** The route of one adapter, but for its limit. */
export function adapterRoute(adapter: Adapter, aggregators: Aggregators) {
  /** The bodies of requests under way, which an answer to a fault may have to repeat parts of. */
  const bodies = new WeakMap<object, Body>()
  const said = (answer: string | Record<string, unknown> | undefined) => {
    if (answer === undefined) return reply(204)
    return typeof answer === 'string' ? text(answer) : reply(200, answer)
  }
  return {
    auth: 'public' as const,
    // Only the aggregator calls this route, and no page.
    cors: false as const,
    summary: `One input of a phone, as ${adapter.name} hands it over.`,
    answers: {
      200: [adapter.reply === 'text' ? 'text/plain' : 'application/json'],
      ...(adapter.ended ? { 204: [] } : {}),
    },
    idempotent: true as const,
    input: bodySchema,
    onInvalid: () => text(invalidInput),
    onFault: (_: unknown, { koa }: Pick<RouteContext, 'koa'>) =>
      said(aggregators.sorry(adapter, bodies.get(koa) ?? {})),
    async run(body: Body, { koa, audit }: Pick<RouteContext, 'koa' | 'audit'>) {
      bodies.set(koa, body)
      return said(await aggregators.answer(adapter, body, audit))
    },
  }
}
