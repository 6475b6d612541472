import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

/** What a name of MODEL says after `ai-sdk/`. */
export interface SdkName {
  /** The package: `@ai-sdk/mistral`, or one of another scope. */
  readonly package: string
  /** The package's own name, without its scope. */
  readonly short: string
  /** The model, as the package calls it. */
  readonly model: string
}

/** Cuts `mistral/large` and `@maker/ai-provider/large`; undefined for what names no package and no model. */
export function sdkName(name: string): SdkName | undefined {
  const [, scope = '@ai-sdk/', short, model] =
    /^(@[a-z0-9][\w.-]*\/)?([a-z0-9][\w.-]*)\/(.+)$/.exec(name) ?? []
  return short && model ? { package: `${scope}${short}`, short, model } : undefined
}

/** What a name needs: its package, or to be a name of a package at all. */
export function nameFault(name: string): { readonly message: string; readonly hint: string } {
  const named = sdkName(name)
  if (named)
    return {
      message: `"ai-sdk/${name}" needs the package ${named.package}.`,
      hint: `npm install ${named.package}`,
    }
  return {
    message: `"ai-sdk/${name}" names no model of a package.`,
    hint: 'Write ai-sdk/<package>/<name>, as in ai-sdk/cohere/command-a.',
  }
}

/** The folder of an installed package, from a folder upwards as Node looks for it; undefined where there is none. */
export function packageFolder(name: string, from = process.cwd()): string | undefined {
  for (let folder = resolve(from); ; folder = dirname(folder)) {
    const found = join(folder, 'node_modules', name)
    if (existsSync(join(found, 'package.json'))) return found
    if (folder === dirname(folder)) return undefined
  }
}

/** Imports an installed package. Node itself would look for it from this file, and not from the app's folder. */
export async function importPackage(folder: string): Promise<Readonly<Record<string, unknown>>> {
  const manifest: unknown = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const { exports, main } = manifest as { readonly exports?: unknown; readonly main?: unknown }
  const root = isRecord(exports) && '.' in exports ? exports['.'] : exports
  const entry = entryOf(root) ?? (typeof main === 'string' ? main : 'index.js')
  return await import(pathToFileURL(join(folder, entry)).href)
}

/** The conditions under which a package is imported, as Node has them. */
const conditions = new Set(['node', 'import', 'module-sync', 'default'])

function entryOf(target: unknown): string | undefined {
  if (typeof target === 'string') return target
  if (Array.isArray(target)) return entryOf(target[0])
  if (!isRecord(target)) return undefined
  for (const [name, value] of Object.entries(target)) {
    const entry = conditions.has(name) ? entryOf(value) : undefined
    if (entry !== undefined) return entry
  }
  return undefined
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
