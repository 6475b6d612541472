import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Command, UsageError } from '../command.ts'
import { camelOf, isName, pluginFiles } from '../template.ts'

/** Adds a plugin to the app of this folder; its test passes at once. */
export const command: Command = {
  usage: 'new <name>',
  example: 'oracle-runtime new field-notes',
  notes: 'The plugin has a table, a variable, a tool, a user’s route and a test of a turn.',
  mostPositionals: 1,
  async run({ positionals: [name] }) {
    if (name === undefined || !isName(name))
      throw new UsageError(
        `"${(name ?? '').slice(0, 60)}" is not a plugin name. Use at most 40 lower-case letters and digits, ` +
          'with hyphens between words: oracle-runtime new field-notes',
      )
    const server = ['server.ts', 'server.js'].find((file) => existsSync(file))
    if (server === undefined)
      throw new UsageError('There is no server.ts or server.js here: go to the folder of your app.')
    const folder = join('plugins', name)
    if (existsSync(folder))
      throw new UsageError(`${folder} exists already. Choose another name, or delete the folder.`)
    mkdirSync(folder, { recursive: true })
    for (const [file, text] of Object.entries(pluginFiles(name)))
      writeFileSync(join(folder, file), text, { flag: 'wx' })
    const isListed = addToApp(server, name)
    console.log(`
${folder} is there${isListed ? `, and ${server} loads it` : ''}. Next:
${isListed ? '' : `\n  import ${camelOf(name)} from './${folder}/index.ts' in ${server}, and list it in "plugins"\n`}
  node --test ${folder}/${name}.test.ts   its tests pass
`)
  },
}

/** Lists the plugin in the app, where its file has one plain list of plugins. Says whether it could. */
function addToApp(server: string, name: string): boolean {
  const source = readFileSync(server, 'utf8')
  const lists = [...source.matchAll(/\bplugins: \[([\w, ]*)\]/g)]
  const camel = camelOf(name)
  const isTaken = new RegExp(`\\b${camel}\\b`).test(source)
  if (lists.length !== 1 || isTaken || server.endsWith('.js')) return false
  const [list = '', entries = ''] = lists[0] ?? []
  const longer = `plugins: [${[
    ...entries
      .split(',')
      .map((entry) => entry.trim())
      .filter(Boolean),
    camel,
  ].join(', ')}]`
  const line = `import ${camel} from './plugins/${name}/index.ts'\n`
  const imports = [...source.matchAll(/^import .*\n/gm)]
  const last = imports.at(-1)
  const at = last ? last.index + last[0].length : 0
  writeFileSync(server, source.slice(0, at) + line + source.slice(at).replace(list, longer))
  return true
}
