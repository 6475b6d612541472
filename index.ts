import { createApp as createBare, type AppOptions, type StartingApp } from './core/runtime/app.ts'

export * from './core/index.ts'

/**
 * Boots the plugins and returns the app, not yet listening. Where no plugin brings models, those of the package are added.
 * Every fault of the boot is collected, logged and thrown as one `BOOT_FAILED`.
 */
export function createApp(options: AppOptions): StartingApp {
  return createBare(options, { bundled })
}

/** The providers of the package, which a boot loads and the import of the package does not. */
const bundled = async () => (await import('./plugins/models.ts')).models
