import { definePlugin } from '#core'
import type { Turns } from '../../core/plugin.ts'

/** A plugin that does nothing but hand out its `turns` and `sessions`, as a plugin that speaks another protocol has them. */
export function door() {
  let own: { turns: Turns } | undefined
  const plugin = definePlugin({
    name: 'door',
    summary: 'Brings turns from elsewhere.',
    visibility: 'silent',
    setup: ({ turns }) => {
      own = { turns }
      return {}
    },
  })
  return {
    plugin,
    get turns(): Turns {
      if (!own) throw new Error('The app is not up.')
      return own.turns
    },
  }
}

/** All events of a turn, as `name` and data. */
export async function eventsIn(turn: AsyncIterable<{ event: string; data: unknown }>) {
  const events: { event: string; data: any }[] = [] // any: a test reads what it knows is there
  for await (const { event, data } of turn) events.push({ event, data })
  return events
}
