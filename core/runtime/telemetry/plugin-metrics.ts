import type { Metrics } from '../../plugin.ts'
import type { Registry } from './registry.ts'

/** `metrics` of a plugin: what the plugin makes bears its name before its own. */
export function metricsOf(registry: Registry, plugin: string): Metrics {
  const named = (name: string) => `${plugin.replaceAll('-', '_')}_${name}`
  return {
    counter: (name, help, labels) =>
      registry.make({ kind: 'counter', name: named(name), help, labels }),
    gauge: (name, help, labels) =>
      registry.make({ kind: 'gauge', name: named(name), help, labels }),
    histogram: (name, help, labels, bounds) =>
      registry.make({ kind: 'histogram', name: named(name), help, labels, bounds }),
  }
}
