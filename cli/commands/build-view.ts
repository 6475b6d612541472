import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { type Command, UsageError } from '../command.ts'
import { buildView } from '../build-view.ts'

/** Builds the part of the playground's page that a plugin brings. */
export const command: Command = {
  usage: 'build:view <folder>',
  example: 'oracle-runtime build:view plugins/toll',
  mostPositionals: 1,
  async run({ positionals: [folder] }) {
    if (!folder)
      throw new UsageError('Name the folder of a plugin: oracle-runtime build:view plugins/toll')
    for (const file of await buildView(resolve(folder))) {
      const { size } = await stat(file)
      console.log(`${file}: ${size} bytes`)
    }
    return 0
  },
}
