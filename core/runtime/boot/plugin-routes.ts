import type { AnyRoute, RouteContext } from '../../plugin.ts'
import type { PluginBase, PluginRecord } from '../base/plugin-record.ts'
import { refusalOf } from './refusal.ts'
import { roomKeys, startingState, type RoomState } from '../store/room-state.ts'
import type { RouteBase } from '../http/routes/exchange.ts'
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
        const ctx = wholeContext(base, baseOf(record))
        const scope = { signal: () => ctx.signal, did: base.user?.did }
        const asked = record.modelsWithin?.(scope)
        if (asked) {
          ctx.models = asked.models
          ctx.model = asked.model
        }
        if (ucan && record.definition.state) ctx.state = startingState(record)
        return ctx
      },
    }
  })
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }

/**
 * Adds the plugin's part of the context to the request's: together they are a whole one. Field by field, for
 * `Object.assign` takes ten times as long, and every request comes by here.
 */
function wholeContext(base: RouteBase, plugin: PluginBase): Mutable<RouteContext> {
  const ctx = base as Mutable<RouteContext>
  ctx.env = plugin.env
  ctx.log = plugin.log
  ctx.self = plugin.self
  ctx.plugins = plugin.plugins
  ctx.fetch = plugin.fetch
  ctx.db = plugin.db
  ctx.jobs = plugin.jobs
  ctx.turns = plugin.turns
  ctx.models = plugin.models
  ctx.model = plugin.model
  ctx.rooms = plugin.rooms
  ctx.sessions = plugin.sessions
  ctx.now = plugin.now
  return ctx
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
function baseOf(record: PluginRecord): PluginBase {
  const refusal = refusalOf(record)
  if (refusal) throw refusal
  if (!record.base) throw new Error(`${record.name} refuses nothing and has no base.`)
  return record.base
}
