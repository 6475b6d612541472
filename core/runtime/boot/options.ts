import { RuntimeError } from '../../errors.ts'
import type { EnvSource } from '../../manifest/env.ts'
import type { Features } from '../../manifest/features.ts'
import { shown } from '../../manifest/tools/tools.ts'
import type { AnyPlugin, HttpLayer } from '../../plugin.ts'
import type { MaybePromise } from '../../plugin/schema.ts'
import { isRecord } from '../base/fields.ts'

/** The options of createApp that the boot goes through one by one. */
interface Listed {
  readonly plugins: readonly AnyPlugin[]
  readonly features: Features
  readonly http: readonly HttpLayer[]
}

/**
 * The options as the boot reads them, and a fault for each that is not of its kind: types cannot stop an app in plain
 * JavaScript. What is wrong is left out, so that the boot finds the other faults too.
 */
export function readOptions(
  given: Partial<Listed>,
): Listed & { readonly faults: readonly RuntimeError[] } {
  const faults: RuntimeError[] = []
  const wrong = (name: string, value: unknown, hint: string) => {
    const is = typeof value === 'function' ? 'a function' : shown(value)
    faults.push(new RuntimeError('OPTION_INVALID', `The option ${name} is ${is}.`, { hint }))
  }
  const { plugins, features = {}, http = [] } = given
  if (!Array.isArray(plugins))
    wrong('"plugins"', plugins, 'List what definePlugin returned: createApp({ plugins: [notes] }).')
  if (!Array.isArray(http))
    wrong('"http"', http, 'List layers: http: [async (koa, next) => { await next() }].')
  const layers = Array.isArray(http) ? http : []
  for (const [at, layer] of layers.entries())
    if (typeof layer !== 'function')
      wrong(`"http[${at}]"`, layer, 'A layer is a function (koa, next).')
  if (!isRecord(features))
    wrong('"features"', features, 'Name plugins: features: { notes: false }.')
  const named = isRecord(features) ? features : {}
  for (const [name, on] of Object.entries(named))
    if (on !== undefined && typeof on !== 'boolean')
      wrong(`"features.${name}"`, on, 'It is true, which loads the plugin or stops, or false.')
  return { plugins: Array.isArray(plugins) ? plugins : [], features: named, http: layers, faults }
}

/**
 * Makes plugins of the environment: for plugins of which there are as many as somebody has configured. `taken` are the names of the
 * plugins that the app lists itself.
 */
export type PluginSource = (
  env: EnvSource,
  taken: ReadonlySet<string>,
) => MaybePromise<readonly AnyPlugin[]>

/** An entry of the plugins of an app. */
export type PluginEntry = AnyPlugin | PluginSource

/** The plugins of an app, each function among them called once. What a function throws is a fault of the boot. */
export async function pluginsOf(
  entries: readonly PluginEntry[],
  env: EnvSource,
): Promise<readonly AnyPlugin[]> {
  if (hasNoFunction(entries)) return entries
  const taken = new Set(
    entries.flatMap((entry) => (typeof entry === 'function' ? [] : (entry?.name ?? []))),
  )
  const lists = entries.map(async (entry: PluginEntry): Promise<readonly AnyPlugin[]> => {
    if (typeof entry !== 'function') return [entry]
    try {
      return await entry(env, taken)
    } catch (cause) {
      if (cause instanceof RuntimeError) throw cause
      const why = cause instanceof Error ? cause.message : String(cause)
      throw new RuntimeError('OPTION_INVALID', `A function of "plugins" failed: ${why}`, {
        hint: 'It gets the environment and returns a list of plugins.',
        cause,
      })
    }
  })
  return (await Promise.all(lists)).flat()
}

/** Types cannot stop an app in plain JavaScript: the boot says what is wrong with options that are no list. */
const hasNoFunction = (entries: readonly PluginEntry[]): entries is readonly AnyPlugin[] =>
  !Array.isArray(entries) || !entries.some((entry) => typeof entry === 'function')
