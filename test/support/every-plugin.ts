import { existsSync, readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { AnyPlugin } from '#core'

/** A plugin, or what makes plugins of the environment. */
type Entry =
  AnyPlugin | ((env: Readonly<Record<string, string | undefined>>) => readonly AnyPlugin[])

const folder = resolve(import.meta.dirname, '../../plugins')

/**
 * Every plugin of this repository, by its folder, also those that an app has to name: none is listed here by hand. The
 * providers of models have neither routes nor tools.
 */
export const everyPlugin: readonly Entry[] = await Promise.all(
  readdirSync(folder)
    .filter((name) => !name.startsWith('models-') && existsSync(join(folder, name, 'index.ts')))
    .map(async (name): Promise<Entry> => {
      const module: { readonly default: Entry } = await import(
        pathToFileURL(join(folder, name, 'index.ts')).href
      )
      return module.default
    }),
)

/** The variables without which some of them are left out. Nobody answers at the address. */
export const everyPluginEnv: Readonly<Record<string, string>> = {
  MATRIX_BASE_URL: 'http://127.0.0.1:9',
  MATRIX_ORACLE_ADMIN_USER_ID: '@oracle:home.test',
  MATRIX_ORACLE_ADMIN_PASSWORD: 'a-password-of-this-test',
  MATRIX_STORE_KEY: 'ab'.repeat(32),
}
