import type { DatabaseSync } from 'node:sqlite'
import { RuntimeError } from '../errors.ts'
import { environmentOf, type EnvSource, isForAuthors, unsaidEnvironment } from '../manifest/env.ts'
import type { Features } from '../manifest/features.ts'
import { readable } from '../manifest/manifest.ts'
import { secretValues } from '../manifest/select.ts'
import { enforceRules, type OutboundRules } from './outbound/rules.ts'
import { kernelEnv } from '../manifest/kernel-env.ts'
import type { AnyPlugin, Fetch, HttpLayer, Shape } from '../plugin.ts'
import type { Instructions } from '../plugin/context.ts'
import { openLog } from './base/log.ts'
import { runtimeVersion } from './base/version.ts'
import type { Blueprint } from './blueprint.ts'
import { readEnvironment, withGenerated } from './boot/environment.ts'
import { planBoot } from './boot/plan.ts'
import type { BootReport } from './boot/report.ts'
import { stopOn } from './boot/stop-on.ts'
import { Closers } from './closers.ts'
import { readInstructions } from './boot/instructions.ts'
import { type PluginEntry, pluginsOf, readOptions } from './boot/options.ts'
import { mindSignals } from './watchdog/signals.ts'
import { readPlans } from './jobs/plan.ts'
import { kernelRouteKeys } from './kernel-routes.ts'
import { ChosenModels } from './model/choose.ts'
import { ChosenEmbedder } from './model/embed/chosen-embedder.ts'
import type { GivenModel } from './model/given.ts'
import type { SettingsByPattern } from './model/settings.ts'
import { metricsPortFault } from './metrics.ts'
import { openParts } from './parts.ts'
import { RunningApp } from './running-app.ts'
import type { TestClock } from './boot/test-clock.ts'
import { openDataDir, type DataDir } from './store/data-dir.ts'
import { readVariableFiles } from './variables/from-files.ts'
import { Rotation } from './variables/rotation.ts'

/** What an app is made from. */
export interface AppOptions {
  /**
   * The plugins of the app. Each is set up after those that it requires or uses. An entry may be a function of the environment
   * that returns plugins.
   */
  readonly plugins: readonly PluginEntry[]
  /** By plugin name: with false the app never loads the plugin, with true the app loads it or stops. FEATURES overrides this. */
  readonly features?: Features
  /** Models of your own, LangChain's or ours, the default first; otherwise the variable MODEL chooses. */
  readonly model?: GivenModel | readonly GivenModel[]
  /** False: nothing is added that brings models, and the app stops where it has none of its own. */
  readonly models?: false
  /** How models are asked, by id, in which `*` stands for any text; MODEL_SETTINGS goes over it. */
  readonly modelSettings?: SettingsByPattern
  /**
   * Who the agent is and how it speaks, at most 16 KiB: text, or a function that is asked once a turn. The instructions
   * stand in the system prompt after the kernel's lines and before those of plugins. By default ORACLE_INSTRUCTIONS,
   * or the text of ORACLE_INSTRUCTIONS_FILE.
   */
  readonly instructions?: Instructions
  /** The whole environment; by default the process's, over a `.env` file. */
  readonly env?: EnvSource
  /** What plugins reach the network through. */
  readonly fetch?: Fetch
  /** Layers around every request, outermost first and outside of the plugins' `middleware.http`. */
  readonly http?: readonly HttpLayer[]
  /** Takes the log's lines instead of standard output. */
  readonly log?: (line: string) => void
  /** A clock that stands until a test moves it, `new TestClock()` of `oracle-runtime/testing`, in place of the real time. */
  readonly clock?: TestClock
}

/** The options once every entry of the plugins is a plugin. */
type KnownPlugins = Omit<AppOptions, 'plugins'> & { readonly plugins: readonly AnyPlugin[] }

/** Where an app listens, and whether signals close it. */
export interface ListenOptions {
  readonly port?: number
  readonly host?: string
  /** False: SIGTERM, SIGINT and SIGHUP are the caller's. */
  readonly signals?: boolean
}

/** A running app. */
export interface App {
  /**
   * Starts answering. By default on HOST and PORT; port 0 takes a free one. SIGTERM and SIGINT then close the app, unless
   * `signals` is false or the process handles them itself.
   */
  listen(options?: ListenOptions): Promise<{ readonly url: string; readonly port: number }>
  /** Ends streams, waits for requests in flight, closes plugins in reverse order, then the database. */
  close(): Promise<void>
  /** What the boot made of every plugin, and which variables there are. */
  readonly report: BootReport
  /**
   * Reads the keys of a changed environment: API_KEY and OPERATOR_TOKEN rotate without a restart, and so do the variables
   * of plugins that stand in files.
   */
  reload(): Promise<void>
}

/** A promise of the app that can be told to listen, or to close, at once. */
export type StartingApp = Promise<App> & Pick<App, 'listen' | 'close'>

/**
 * Boots the plugins and returns the app, not yet listening. Every fault of the boot is collected, logged
 * and thrown as one `BOOT_FAILED`.
 */
export function createApp(options: AppOptions, kit?: KitOptions): StartingApp {
  const booting: Promise<App> = boot(options, kit)
  booting.catch(() => undefined) // whoever awaits the promise, or listens, gets the fault
  const later = { close: async () => (await booting).close(), reload: async () => {} }
  return Object.assign(booting, {
    async listen(options?: ListenOptions) {
      // A signal may come while the app boots.
      const early = options?.signals === false ? undefined : mindSignals(later)
      try {
        return await (await booting).listen(options)
      } finally {
        early?.leave()
      }
    },
    close: async () => (await booting).close(),
  })
}

/** What the testing kit and the front door of the package give beside the options. */
export interface KitOptions {
  /** An open database in memory, which outlives the app. */
  readonly memory?: DatabaseSync
  /** Plugins that are added where no given plugin brings a model. */
  readonly bundled?: () => Promise<readonly AnyPlugin[]>
  /** True: for a command beside the servers, which carries none of their runs. */
  readonly isAside?: boolean
}

/**
 * What `createApp` does; core/testing reaches further into the result than authors do.
 * @internal So the package's declarations hold what authors use, and not the whole runtime.
 */
export async function boot(options: AppOptions, kit: KitOptions = {}): Promise<RunningApp> {
  const startedAt = performance.now()
  const environment = async () => options.env ?? (await readEnvironment())
  const source = await environment()
  const given = { ...options, plugins: await pluginsOf(options.plugins, source) }
  const added = await addedTo(given, kit)
  const drawn = await draw(given, source, added)
  const blueprint = { ...drawn, memory: kit.memory, isAside: kit.isAside }
  const closers = new Closers(blueprint.log)
  closers.add(enforceRules(outboundRules(blueprint)))
  try {
    const parts = await openParts(blueprint, closers)
    return new RunningApp({ blueprint, parts, closers, startedAt, readEnvironment: environment })
  } catch (error) {
    await closers.close()
    throw error
  }
}

/** Decides everything for which nothing has to be open yet, or throws all faults together. */
async function draw(
  options: KnownPlugins,
  bare: EnvSource,
  added: readonly AnyPlugin[],
): Promise<Blueprint> {
  const { fetch = globalThis.fetch } = options
  const { plugins, features, http, faults: wrongOptions } = readOptions(options)
  const shapes = [kernelEnv, ...[...plugins, ...added].map(envOfPlugin)]
  const { source: given, ...files } = await readVariableFiles(bare, shapes)
  const dataDir = await folderOf(given)
  const source = isForAuthors(given) ? await withGenerated(given, shapes, dataDir) : given
  const plan = planBoot({ plugins, added, features, source, kernelRoutes: kernelRouteKeys })
  const { config, records, envOf } = plan
  const { clock } = options
  const choice = { settings: options.modelSettings, config, source, records, envOf }
  const now = clock && (() => clock.now().getTime())
  const chosen = new ChosenModels({ ...choice, given: options.model, now })
  const embedder = new ChosenEmbedder(choice)
  const secrets = [...secretValues(shapes, source), ...chosen.secrets, ...embedder.secrets]
  const { log, writeLines } = openLog({
    level: config.LOG_LEVEL ?? 'info',
    pretty: isForAuthors(given),
    secrets,
    write: options.log,
  })
  log.info(`oracle-runtime ${runtimeVersion} on node ${process.versions.node}`)
  for (const sentence of [...plan.suspects, ...files.warnings]) log.warn(sentence)
  const { plans, faults } = await readPlans(records)
  const { instructions, faults: ofInstructions } = await readInstructions(
    options.instructions,
    config,
  )
  const ofPorts = [metricsPortFault(config) ?? []].flat()
  const ofModels = [...chosen.faults, ...embedder.faults]
  stopOn(
    [
      ...wrongOptions,
      ...files.faults,
      ...ofPorts,
      ...plan.faults,
      ...faults,
      ...ofModels,
      ...ofInstructions,
    ],
    log,
  )
  return {
    config,
    records,
    envOf,
    plans,
    chosen,
    embedder,
    instructions,
    source,
    secrets,
    rotation: new Rotation({ records, envOf, source, secrets }),
    fetch,
    http,
    log,
    writeLines,
    dataDir,
    clock,
  }
}

/** The variables of a plugin, as far as they can be read: the plan says what is wrong with the others. */
const envOfPlugin = (plugin: AnyPlugin): Shape =>
  plugin?.definition ? (readable(plugin).definition.env ?? {}) : {}
/** The plugins that are added: those of the package, where the app brings no model and does not want to do without. */
async function addedTo(
  { plugins, models }: KnownPlugins,
  { bundled }: KitOptions,
): Promise<readonly AnyPlugin[]> {
  // Types cannot stop an app in plain JavaScript: the boot says what is wrong with other plugins.
  const given = Array.isArray(plugins) ? plugins : []
  const bringsModels = given.some((plugin) => plugin?.definition?.models !== undefined)
  if (!bundled || models === false || bringsModels) return []
  return await bundled()
}

/** What `deliver` and its like may call while this app runs. */
const outboundRules = ({ config, source }: Blueprint): OutboundRules => ({
  isForAuthors: isForAuthors(source),
  allowed: config.OUTBOUND_ALLOW ?? [],
})

/** The value of DATA_DIR with which the app writes no file: everything is gone when the process ends. */
const inMemory = ':memory:'

/** The folder of the app's files, where it has one. A boot that stops for its environment leaves no folder behind. */
async function folderOf(given: EnvSource): Promise<DataDir | undefined> {
  const environment = environmentOf(given)
  const path = given.DATA_DIR || '.data'
  const isSaid = environment !== undefined && !unsaidEnvironment(given, given.HOST || undefined)
  const isElsewhere = environment === 'production' && given.DATABASE_URL
  return isSaid && path !== inMemory && !isElsewhere ? await openDataDir(path) : undefined
}
