// Lets a Node that reads TypeScript behind a flag alone (22.13 to 22.17) load the files of an app. Node runs this beside the app.
import { readFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { fileURLToPath } from 'node:url'

/** Loads a file, and one in TypeScript without its types: each stays in its line. */
export async function load(url, context, next) {
  const { protocol, pathname } = new URL(url)
  const isOwn =
    protocol === 'file:' && /\.m?ts$/.test(pathname) && !/\/node_modules\//.test(pathname)
  if (!isOwn) return next(url, context)
  const source = stripTypeScriptTypes(await readFile(fileURLToPath(url), 'utf8'))
  return { format: 'module', shortCircuit: true, source }
}
