import { RuntimeError } from '../../errors.ts'
import type { AnyRoute, RouteContext } from '../../plugin.ts'
import type { PluginRecord } from '../base/plugin-record.ts'
import { roomKeys, startingState, type RoomState } from '../store/room-state.ts'
import type { ServedRoute } from '../http/routes/run-route.ts'

/** Where a route finds the caller's room. */
export interface Rooms extends RoomState {
  of(userDid: string): string
}

/** The routes of one plugin, each with the plugin's own part of the context. */
export function pluginRoutes(record: PluginRecord, rooms: Rooms): ServedRoute[] {
  const hasRoom = roomKeys(record).length > 0
  return Object.entries(record.routes).map(([key, route]) => {
    const ucan = (route.auth ?? 'ucan') === 'ucan'
    return {
      key,
      owner: record.name,
      route: ucan && hasRoom ? withRoomState(record, route, rooms) : route,
      context(base) {
        // With the base it is one: the base has the request's part, the record the plugin's.
        const ctx = Object.assign(base, baseOf(record)) as RouteContext
        return ucan && record.definition.state
          ? Object.assign(ctx, { state: startingState(record) })
          : ctx
      },
    }
  })
}

/** Reads the caller's room before the handler runs and writes back what it changed. */
function withRoomState(record: PluginRecord, route: AnyRoute, rooms: Rooms): AnyRoute {
  return {
    ...route,
    async run(input, ctx) {
      const room = rooms.of(ctx.user!.did)
      const before = await rooms.load(room, record)
      Object.assign(ctx.state!, structuredClone(before))
      const answer = await route.run(input, ctx)
      await rooms.save(room, record, before, ctx.state!)
      return answer
    },
  }
}

/** Until a plugin's setup has finished its routes answer 503 and say why. */
function baseOf(record: PluginRecord) {
  if (record.base) return record.base
  throw new RuntimeError('UNAVAILABLE', `${record.name} is ${record.state}.`, {
    hint: record.reason,
    headers: { 'Retry-After': '5' },
  })
}
