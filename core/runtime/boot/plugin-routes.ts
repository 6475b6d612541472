import type { AnyRoute, RouteContext } from '../../plugin.ts'
import type { PluginRecord } from '../base/plugin-record.ts'
import { refusalOf } from './refusal.ts'
import { roomKeys, startingState, type RoomState } from '../store/room-state.ts'
import type { ServedRoute } from '../http/routes/run-route.ts'

/** The routes of one plugin, each with the plugin's own part of the context. */
export function pluginRoutes(record: PluginRecord, rooms: RoomState): ServedRoute[] {
  const hasRoom = roomKeys(record).length > 0
  return Object.entries(record.routes).map(([key, route]) => {
    const ucan = (route.auth ?? 'ucan') === 'ucan'
    return {
      key,
      owner: record.name,
      route: ucan && hasRoom ? withRoomState(record, route, rooms) : route,
      context(base) {
        // `base` has the request's part of the context, `baseOf(record)` the plugin's: together they are a whole one.
        const ctx = Object.assign(base, baseOf(record)) as RouteContext
        const scope = { signal: () => ctx.signal, did: base.user?.did }
        Object.assign(ctx, record.modelsWithin?.(scope))
        return ucan && record.definition.state
          ? Object.assign(ctx, { state: startingState(record) })
          : ctx
      },
    }
  })
}

/** Reads the caller's room before the handler runs and writes back what the handler changed. */
function withRoomState(record: PluginRecord, route: AnyRoute, rooms: RoomState): AnyRoute {
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

/** The plugin's part of the context. Throws the 503 of a plugin that serves nothing. */
function baseOf(record: PluginRecord) {
  const refusal = refusalOf(record)
  if (refusal) throw refusal
  return record.base
}
