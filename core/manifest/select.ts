import { RuntimeError } from '../errors.ts'
import type { AnyPlugin } from '../plugin.ts'
import { type EnvSource, isForAuthors, isSecret, parseEnv } from './env.ts'
import type { Features } from './features.ts'
import { requirementsOf } from './load-order.ts'

/** Whether one plugin loads, decided before any of its code runs. */
export type Selection =
  | { readonly plugin: AnyPlugin; readonly state: 'active'; readonly env: Record<string, unknown> }
  | {
      readonly plugin: AnyPlugin
      readonly state: 'disabled' | 'excluded'
      readonly reason: string
      readonly missing: readonly string[]
    }

/**
 * Decides which plugins load. It looks at the features first, then at the required plugins, then at the environment. The
 * plugins come in load order, so the required ones are decided before those that require them.
 */
export function select(order: readonly AnyPlugin[], features: Features, source: EnvSource) {
  const faults: RuntimeError[] = []
  const selected = new Map<string, Selection>()

  const choose = (plugin: AnyPlugin): Selection => {
    const { name, definition } = plugin
    const forced = features[name] === true
    const off = (
      state: 'disabled' | 'excluded',
      reason: string,
      missing: readonly string[] = [],
    ): Selection => ({
      plugin,
      state,
      reason,
      missing,
    })

    if (features[name] === false) return off('disabled', 'features say off.')
    const isOff =
      definition.defaultState === 'off' ||
      (definition.defaultState === 'development' && !isForAuthors(source))
    if (isOff && !forced)
      return off('disabled', `off by default; turn it on with FEATURES=${name}=on.`)

    const blocked = requirementsOf(plugin)
      .map((required) => required && selected.get(required.name))
      .find((required) => required !== undefined && required.state !== 'active')
    if (blocked) {
      const required = blocked.plugin.name
      const why = `it requires ${required}, which is ${blocked.state}`
      const remedy =
        blocked.state === 'disabled'
          ? `Turn ${required} on, or turn ${name} off as well.`
          : `Complete the environment of ${required}, or turn ${name} off.`
      if (forced)
        faults.push(
          new RuntimeError('REQUIRED_PLUGIN_DISABLED', `Plugin ${name} is forced on, but ${why}.`, {
            hint: remedy,
          }),
        )
      return off(blocked.state === 'excluded' ? 'excluded' : 'disabled', `${why}. ${remedy}`)
    }

    const env = parseEnv(`plugin ${name}`, definition.env ?? {}, source)
    faults.push(...env.faults)
    if (env.missing.length === 0) return { plugin, state: 'active', env: env.values }
    if (forced)
      faults.push(
        ...env.missing.map(
          (variable) =>
            new RuntimeError('ENV_MISSING', missingText(name, variable), {
              hint: remedyFor(name, variable),
            }),
        ),
      )
    return off(
      'excluded',
      env.missing
        .map((variable) => `${missingText(name, variable)} ${remedyFor(name, variable)}`)
        .join(' '),
      env.missing,
    )
  }

  for (const plugin of order) selected.set(plugin.name, choose(plugin))
  return { selections: [...selected.values()], faults }
}

const missingText = (plugin: string, variable: string) =>
  `Plugin ${plugin} env validation failed for ${variable}.`
const remedyFor = (plugin: string, variable: string) =>
  `Set ${variable}, or turn the plugin off with FEATURES=${plugin}=off.`

const namedKey = /^[A-Za-z0-9][\w.-]*:(?!\/\/)([^\s,:]+)$/

/** The values in `name:value,name:value`. Each is a secret of its own, which code may print without the others. */
function namedKeys(value: string): string[] {
  const keys = value.split(',').map((entry) => namedKey.exec(entry.trim())?.[1])
  return keys.every((key) => key !== undefined) ? keys : []
}

/** The password in an address, as it stands there and as a client sends it: errors may quote it without the address. */
function passwordsIn(value: string): string[] {
  const password = URL.canParse(value) ? new URL(value).password : ''
  if (password === '') return []
  try {
    return [password, decodeURIComponent(password)]
  } catch {
    return [password] // a percent sign that begins no code
  }
}

/** The values of secret variables that are set, for the log to mask. */
export function secretValues(
  shapes: Iterable<NonNullable<AnyPlugin['definition']['env']>>,
  source: EnvSource,
): string[] {
  const values: string[] = []
  for (const shape of shapes)
    for (const [variable, schema] of Object.entries(shape)) {
      const value = source[variable]
      if (value && isSecret(schema)) {
        values.push(value, ...namedKeys(value), ...passwordsIn(value))
      }
    }
  return values
}
