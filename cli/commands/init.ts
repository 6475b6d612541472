import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { runtimeVersion } from '../../core/runtime/base/version.ts'
import { type Command, UsageError } from '../command.ts'
import { appFiles, isName } from '../template.ts'

/** Makes a new app: its package.json, its server.ts with a plugin, and its .gitignore. */
export const command: Command = {
  usage: 'init <name> [--runtime <version or path>]',
  example: 'oracle-runtime init my-oracle',
  notes:
    'The folder <name> is made, or has to be empty. --runtime says what its package.json asks npm for, such as\n' +
    'file:../oracle-runtime-0.1.0.tgz; by default it is the version of this command.',
  options: { runtime: { type: 'string' } },
  mostPositionals: 1,
  async run(words) {
    const [name] = words.positionals
    if (name === undefined || !isName(name))
      throw new UsageError(
        `"${(name ?? '').slice(0, 60)}" is no name for an app. Use at most 40 lower-case letters and digits, ` +
          'with hyphens between words: oracle-runtime init my-oracle',
      )
    const folder = resolve(name)
    if (existsSync(folder) && holdsSomething(folder))
      throw new UsageError(
        `${folder} is not empty. Choose another name, or empty the folder first.`,
      )
    mkdirSync(folder, { recursive: true })
    // `wx`: nothing is written over, also when two commands make the same folder.
    for (const [file, text] of Object.entries(
      appFiles(name, words.text('runtime') ?? runtimeVersion),
    ))
      writeFileSync(join(folder, file), text, { flag: 'wx' })
    console.log(`
${folder} is there. Next:

  cd ${name}
  npm install
  npm run dev                        then open the page whose address it prints
  npx --no -- oracle-runtime new notes  adds a plugin with a table, a route and a test
`)
  },
}

function holdsSomething(folder: string): boolean {
  try {
    return readdirSync(folder).length > 0
  } catch {
    return true // a file, or a folder that cannot be read
  }
}
