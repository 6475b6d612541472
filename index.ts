import {
  createApp as createBare,
  type AppOptions,
  type ListenOptions,
  type StartingApp,
} from './core/runtime/app.ts'

export * from './core/index.ts'

/**
 * Boots the plugins and returns the app, not yet listening. Where no plugin brings models, those of the package are added.
 * Every fault of the boot is collected, logged and thrown as one `BOOT_FAILED`.
 */
export function createApp(options: AppOptions): StartingApp {
  return createBare(options, { bundled })
}

/** An app as `server.ts` defines it: nothing is started, and every command of the command line can read it. */
export interface DefinedApp {
  readonly options: AppOptions
  /** Boots the app, with other options in place of its own where they are given. */
  create(over?: Partial<AppOptions>): StartingApp
  /**
   * Boots and listens as the whole purpose of this process: a fault of the boot is printed, and the process ends with 1.
   * Resolves to where the server listens.
   */
  listen(options?: ListenOptions): Promise<{ readonly url: string; readonly port: number }>
}

/**
 * Defines an app by the options of `createApp`. `server.ts` has it as its default export, and listens when that file is
 * itself what Node was started with: `if (import.meta.main) await app.listen()`.
 */
export function defineApp(options: AppOptions): DefinedApp {
  const create = (over?: Partial<AppOptions>) => createApp({ ...options, ...over })
  return {
    options,
    create,
    listen: async (listening) => (await import('./cli/run-app.ts')).runApp(create, listening),
  }
}

/** The providers of the package, which a boot loads and the import of the package does not. */
const bundled = async () => (await import('./plugins/models.ts')).models
