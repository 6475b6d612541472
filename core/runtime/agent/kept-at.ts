import type { KeptAt } from '../turns/branches/branches.ts'
import type { RunEnd } from '../turns/run.ts'
import type { Graph, Kept } from './state/graph.ts'
import type { StateKey } from './state/state.ts'

/** What a session had loaded and kept at a step: what its engine had left before, and what its steps changed since. */
export async function keptAt(
  graph: Pick<Graph, 'read'>,
  keys: readonly StateKey[],
  { thread, checkpoint, entries }: KeptAt,
): Promise<Kept & { readonly loadedPlugins: readonly string[] }> {
  // Without a checkpoint the graph would read the thread's newest, which is of a later time.
  const before: Kept =
    checkpoint === undefined ? { states: {} } : await graph.read(thread, checkpoint)
  const loaded = new Set(before.loadedPlugins)
  const states: Record<string, unknown> = { ...before.states }
  const own = keys.filter(({ scope }) => scope === 'thread')
  for (const entry of entries) {
    for (const name of entry.loaded ?? []) loaded.add(name)
    for (const { record, key, channel } of own) {
      const changed = entry.states?.[record.name]
      if (changed && Object.hasOwn(changed, key)) states[channel] = changed[key] ?? null
    }
  }
  return { loadedPlugins: [...loaded], states }
}

/** Makes the head of another thread of what was kept at a step; nothing where nothing was kept. */
export async function branchHead(
  graph: Pick<Graph, 'read' | 'pass'>,
  keys: readonly StateKey[],
  at: KeptAt,
  thread: string,
): Promise<Pick<RunEnd, 'checkpoint' | 'save'>> {
  const kept = await keptAt(graph, keys, at)
  if (kept.loadedPlugins.length === 0 && Object.keys(kept.states).length === 0) return {}
  return graph.pass({ thread, begins: true, work: async () => kept })
}

/** What was kept, as its reader finds it: by plugin and key. */
export function shownState({ loadedPlugins = [], states }: Kept): {
  loadedPlugins: readonly string[]
  state: Record<string, Record<string, unknown>>
} {
  const state: Record<string, Record<string, unknown>> = {}
  for (const [channel, value] of Object.entries(states)) {
    const dot = channel.indexOf('.')
    const plugin = (state[channel.slice(0, dot)] ??= {})
    plugin[channel.slice(dot + 1)] = value
  }
  return { loadedPlugins, state }
}
