import { migrateWithoutServer } from '../../core/runtime/migrate-without-server.ts'
import { appOfFolder } from '../app-of-folder.ts'
import type { Command } from '../command.ts'
import { loadEnvFileIfAny } from '../env-file.ts'

/** Runs the migrations of the kernel and of the plugins alone, before servers start. */
export const command: Command = {
  usage: 'migrate [--check] [--json]',
  example: 'oracle-runtime migrate --check',
  notes: '--check changes nothing: it says which migrations would run.',
  options: { check: { type: 'boolean' }, json: { type: 'boolean' } },
  async run(words) {
    const check = words.has('check')
    const { options } = await appOfFolder()
    const named = await migrateWithoutServer(loadEnvFileIfAny(), options.plugins, { check })
    if (words.has('json')) {
      console.log(JSON.stringify(named, null, 2))
      return
    }
    for (const { owner, migration } of named) console.log(`${owner}: ${migration}`)
    const count = named.length === 1 ? '1 migration' : `${named.length} migrations`
    console.log(check ? `${count} would run.` : `${count} ran.`)
  },
}
