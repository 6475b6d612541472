import { RuntimeError } from '../errors.ts'
import type { AnyDefinition, AnyPlugin } from '../plugin.ts'

/** The plugins in the order of their setups, and why some have no place in it. */
export interface LoadOrder {
  readonly order: readonly AnyPlugin[]
  readonly faults: readonly RuntimeError[]
}

/** Puts what is required before what requires it, and keeps the given order otherwise. */
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
          hint: 'Drop one "requires" on that path.',
        }),
      )
      return
    }
    path.push(plugin.name)
    for (const required of requirementsOf(plugin)) {
      const given = required && byName.get(required.name)
      if (given) visit(given)
      else faults.push(required ? missing(plugin, required) : unresolved(plugin))
    }
    path.pop()
    if (!done.has(plugin.name)) order.push(plugin)
    done.add(plugin.name)
  }
  for (const plugin of plugins) visit(plugin)
  return { order, faults }
}

/**
 * What a plugin requires. An entry is undefined when two modules import each other; what is no plugin at all is left
 * out, for the check of the manifest names it.
 */
export function requirementsOf(plugin: AnyPlugin): readonly (AnyPlugin | undefined)[] {
  const { requires } = plugin.definition
  return Array.isArray(requires) ? requires.filter((entry) => !isForeign(entry)) : []
}

/** The names of what a plugin requires. */
export const requiredNames = (definition: AnyDefinition): string[] =>
  requirementsOf({ name: definition.name, definition }).flatMap((plugin) => plugin?.name ?? [])

/** Whether an entry of `requires` is something other than a plugin; undefined is a plugin that was not there yet. */
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

function unresolved(plugin: AnyPlugin): RuntimeError {
  return new RuntimeError(
    'PLUGIN_CYCLE',
    `Plugin ${plugin.name} requires something that was undefined when its file was read.`,
    { hint: 'Two plugin files import each other. Drop one "requires" on that path.' },
  )
}
