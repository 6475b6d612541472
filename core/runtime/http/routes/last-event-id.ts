import { RuntimeError } from '../../../errors.ts'
import type { RouteContext } from '../../../plugin.ts'

/** The number of the event after which a client that connects again goes on reading; undefined when it names none. */
export function lastEventId({ koa }: Pick<RouteContext, 'koa'>): number | undefined {
  const given = koa.get('Last-Event-ID')
  if (given === '') return undefined
  const id = Number(given)
  if (/^\d+$/.test(given) && Number.isSafeInteger(id)) return id
  throw new RuntimeError('BAD_REQUEST', `Last-Event-ID is not the number of an event.`)
}
