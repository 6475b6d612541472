import { RuntimeError } from '../errors.ts'
import type { AnyDefinition, AnyPlugin } from '../plugin.ts'

/** The plugins in the order of their setups, and the faults of their `requires` and `uses`. */
export interface LoadOrder {
  readonly order: readonly AnyPlugin[]
  readonly faults: readonly RuntimeError[]
}

/** Puts each plugin after those that it requires or uses, and keeps the given order otherwise. */
export function loadOrder(plugins: readonly AnyPlugin[]): LoadOrder {
  const byName = new Map(plugins.map((plugin) => [plugin.name, plugin]))
  const order: AnyPlugin[] = []
  const faults: RuntimeError[] = []
  const done = new Set<string>()
  const path: string[] = []

  const visit = (plugin: AnyPlugin) => {
    if (done.has(plugin.name)) return
    const turn = path.indexOf(plugin.name)
    if (turn >= 0) {
      const cycle = [...path.slice(turn), plugin.name].join(' -> ')
      faults.push(
        new RuntimeError('PLUGIN_CYCLE', `Plugins require each other: ${cycle}`, {
          hint: 'Drop one "requires" or "uses" on that path.',
        }),
      )
      return
    }
    path.push(plugin.name)
    for (const required of requirementsOf(plugin)) {
      const given = required && byName.get(required.name)
      if (given) visit(given)
      else faults.push(required ? missing(plugin, required) : unresolved(plugin, 'requires'))
    }
    for (const used of usesOf(plugin)) {
      const given = used && byName.get(used.name)
      if (given) visit(given)
      else if (!used) faults.push(unresolved(plugin, 'uses'))
    }
    path.pop()
    if (!done.has(plugin.name)) order.push(plugin)
    done.add(plugin.name)
  }
  for (const plugin of plugins) visit(plugin)
  return { order, faults }
}

/**
 * The plugins that a plugin requires. An entry is undefined when two modules import each other. Entries that are no plugins
 * are left out: `checkManifest` reports them.
 */
export function requirementsOf(plugin: AnyPlugin): readonly (AnyPlugin | undefined)[] {
  return pluginsIn(plugin.definition.requires)
}

/** The plugins that a plugin uses where the app has them, listed as `requirementsOf` lists the required ones. */
export function usesOf(plugin: AnyPlugin): readonly (AnyPlugin | undefined)[] {
  return pluginsIn(plugin.definition.uses)
}

const pluginsIn = (listed: AnyDefinition['requires']) =>
  Array.isArray(listed) ? listed.filter((entry) => !isForeign(entry)) : []

/** The names of the plugins that a plugin requires. */
export const requiredNames = (definition: AnyDefinition): string[] =>
  requirementsOf({ name: definition.name, definition }).flatMap((plugin) => plugin?.name ?? [])

/** The names of the plugins that a plugin uses where the app has them. */
export const usedNames = (definition: AnyDefinition): string[] =>
  usesOf({ name: definition.name, definition }).flatMap((plugin) => plugin?.name ?? [])

/**
 * Whether an entry of `requires` or `uses` is no plugin. For undefined it is false: such an entry is a plugin whose file was
 * not read yet.
 */
export const isForeign = (entry: unknown): boolean =>
  entry !== undefined &&
  !(typeof entry === 'object' && entry !== null && 'name' in entry && 'definition' in entry)

function missing(plugin: AnyPlugin, required: AnyPlugin): RuntimeError {
  return new RuntimeError(
    'REQUIRED_PLUGIN_MISSING',
    `Plugin ${plugin.name} requires ${required.name}, which is not among the plugins of this app.`,
    { hint: `Add ${required.name} to the plugins given to createApp.` },
  )
}

function unresolved(plugin: AnyPlugin, key: 'requires' | 'uses'): RuntimeError {
  return new RuntimeError(
    'PLUGIN_CYCLE',
    `Plugin ${plugin.name} ${key} something that was undefined when its file was read.`,
    { hint: 'Two plugin files import each other. Drop one "requires" or "uses" on that path.' },
  )
}
