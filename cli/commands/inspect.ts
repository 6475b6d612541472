import type { BootReport } from '../../core/runtime/boot/report.ts'
import { appOfFolder } from '../app-of-folder.ts'
import type { Command } from '../command.ts'
import { loadEnvFileIfAny } from '../env-file.ts'
import { table } from '../table.ts'

/** Prints the boot report of a server that does not listen. The database is in memory, so an inspection writes nothing. */
export const command: Command = {
  usage: 'inspect [--json]',
  example: 'oracle-runtime inspect --json',
  options: { json: { type: 'boolean' } },
  async run(words) {
    const { DATABASE_URL: _, DATABASE_URL_FILE: __, ...env } = loadEnvFileIfAny()
    const defined = await appOfFolder()
    const app = await defined.create({
      env: { ...env, DATA_DIR: ':memory:', LOG_LEVEL: 'silent' },
    })
    if (words.has('json')) console.log(JSON.stringify(app.report, null, 2))
    else print(app.report)
    await app.close()
  },
}

function print({ runtime, node, plugins, models }: BootReport): void {
  console.log(`oracle-runtime ${runtime} on node ${node}\n`)
  console.log(
    table(
      ['plugin', 'state', 'default', 'visibility', 'requires', 'uses', 'state keys'],
      plugins.map((p) => [
        p.name,
        p.state,
        p.defaultState,
        p.visibility,
        p.requires.join(' '),
        p.uses.join(' '),
        p.stateKeys.join(' '),
      ]),
    ),
  )
  for (const { name, reason } of plugins) if (reason) console.log(`${name}: ${reason}`)
  console.log(`\n${models.join('\n')}`)
  console.log(
    `\n${table(
      ['tool', 'plugin'],
      plugins.flatMap((p) => p.tools.map((tool) => [tool, p.name])),
    )}`,
  )
  console.log(
    `\n${table(
      ['route', 'auth', 'plugin'],
      plugins.flatMap((p) => p.routes.map(({ key, auth }) => [key, auth, p.name])),
    )}`,
  )
  const jobs = plugins.flatMap((p) => p.jobs.map((job) => ({ ...job, plugin: p.name })))
  if (jobs.length > 0)
    console.log(
      `\n${table(
        ['job', 'plugin', 'when', 'next'],
        jobs.map(({ name, plugin, when, next }) => [name, plugin, when, next.join(' ')]),
      )}`,
    )
  console.log('\nThe environment: oracle-runtime env')
}
