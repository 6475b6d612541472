import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { DefinedApp } from '../index.ts'
import { UsageError } from './command.ts'
import { loadEnvFileIfAny } from './env-file.ts'
import type { AnyPlugin } from '../core/plugin.ts'
import { pluginsOf } from '../core/runtime/boot/options.ts'

/** An app whose plugins are known: functions among them were called. */
export interface FoundApp extends Omit<DefinedApp, 'options'> {
  readonly options: Omit<DefinedApp['options'], 'plugins'> & {
    readonly plugins: readonly AnyPlugin[]
  }
}

/** The files in which an app is looked for. */
const files = ['server.ts', 'server.js']

const shape = `const app = defineApp({ plugins: [] })
  export default app
  if (import.meta.main) await app.listen()`

/** Whether there is an app in the working directory. */
export const isAppFolder = (): boolean =>
  files.some((name) => existsSync(join(process.cwd(), name)))

/** The app of the working directory: the default export of `server.ts` or `server.js`. Nothing of it is started. */
export async function appOfFolder(): Promise<FoundApp> {
  const folder = process.cwd()
  const file = files.find((name) => existsSync(join(folder, name)))
  if (file === undefined)
    throw new UsageError(
      `There is no server.ts or server.js in ${folder}. Go to the folder of your app, or make one: oracle-runtime init my-oracle`,
    )
  const path = resolve(folder, file)
  // A program that listens when it is imported would start a server here.
  if (!/\bexport\s+default\b|\bas\s+default\b/.test(readFileSync(path, 'utf8'))) throw noApp(path)
  const { default: app } = (await import(pathToFileURL(path).href)) as { default?: unknown }
  if (!isDefined(app)) throw noApp(path)
  const plugins = await pluginsOf(app.options.plugins, app.options.env ?? loadEnvFileIfAny())
  const { create, listen } = app
  return { options: { ...app.options, plugins }, create, listen }
}

const noApp = (path: string) =>
  new UsageError(`${path} has no app as its default export. It has to end like this:\n\n  ${shape}`)

// Not by a class: the app may come from another copy of the package.
const isDefined = (app: unknown): app is DefinedApp =>
  typeof app === 'object' &&
  app !== null &&
  'options' in app &&
  'create' in app &&
  typeof app.create === 'function'
