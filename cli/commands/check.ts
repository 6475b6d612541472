import { migrateWithoutServer } from '../../core/runtime/migrate-without-server.ts'
import { masking } from '../../core/runtime/base/log.ts'
import { appOfFolder } from '../app-of-folder.ts'
import { checkDataDir } from '../check/data-dir.ts'
import { type CheckedEnvironment, checkEnvironment } from '../check/environment.ts'
import { faultOf, type Finding, ok, warning } from '../check/finding.ts'
import {
  checkBus,
  checkModels,
  checkPort,
  checkPublicUrl,
  checkRedis,
} from '../check/neighbours.ts'
import { checkPostgres } from '../check/postgres.ts'
import type { Command } from '../command.ts'
import { loadEnvFileIfAny } from '../env-file.ts'
import { ModelProviders } from '../model-providers.ts'

/** Names everything that would stop or degrade a start of the app, without starting it. */
export const command: Command = {
  usage: 'check [--json]',
  example: 'oracle-runtime check',
  notes:
    'Looks at the environment, the files, the database, Redis, the bus, the disk, PORT, PUBLIC_URL and the addresses of\n' +
    'the models. No data is changed, and no model is called. Ends with 1 where there is a fault; warnings end with 0.',
  options: { json: { type: 'boolean' } },
  async run(words) {
    const { options } = await appOfFolder()
    const checked = await checkEnvironment(options, options.env ?? loadEnvFileIfAny())
    const { source, plugins } = checked
    const providers = await ModelProviders.open(plugins, source)
    const database = await checkedDatabase(checked)
    const others = await Promise.all([
      source.REDIS_URL && checkRedis(source.REDIS_URL),
      source.BUS_URL && checkBus(source.BUS_URL),
      checkPort(source),
      source.PUBLIC_URL && URL.canParse(source.PUBLIC_URL) && checkPublicUrl(source.PUBLIC_URL),
    ])
    const isBoot = !checked.findings.some(({ state }) => state === 'fault')
    const models = isBoot ? await checkModels(providers, source, options.model !== undefined) : []
    const masked = masking(checked.secrets)
    const findings = [...checked.findings, ...database, ...others, ...models]
      .filter((each) => typeof each === 'object')
      .map((each) => withoutSecrets(each, masked))
    if (words.has('json')) console.log(JSON.stringify(findings, null, 2))
    else for (const finding of findings) console.log(lineOf(finding))
    const faults = findings.filter(({ state }) => state === 'fault').length
    if (!words.has('json')) console.log(faults === 1 ? '1 fault.' : `${faults} faults.`)
    return faults === 0 ? 0 : 1
  },
}

/** The database with its migrations, and the folder where the server has one. */
async function checkedDatabase(checked: CheckedEnvironment): Promise<readonly Finding[]> {
  const { source } = checked
  const isPostgres = /^postgres(ql)?:\/\//.test(source.DATABASE_URL ?? '')
  const isInMemory = source.DATA_DIR === ':memory:'
  const found: Finding[] = []
  if (isPostgres) found.push(...(await checkPostgres(source)))
  else if (isInMemory) found.push(ok('database', 'in memory: everything is gone with the process'))
  else if (!source.DATABASE_URL) found.push(...(await checkDataDir(source.DATA_DIR || '.data')))
  const isSound = [...checked.findings, ...found].every(
    ({ state, what }) =>
      state !== 'fault' || !['environment', 'DATA_DIR', 'database'].includes(what),
  )
  if (isSound && !isInMemory) found.push(await checkMigrations(checked))
  return found
}

async function checkMigrations({ source, plugins }: CheckedEnvironment): Promise<Finding> {
  try {
    const named = await migrateWithoutServer(source, plugins, { check: true })
    if (named.length === 0) return ok('migrations', 'none would run')
    const names = named.map(({ owner, migration }) => `${owner} ${migration}`)
    const shown = names.length > 5 ? `${names.slice(0, 5).join(', ')} and others` : names.join(', ')
    return warning(
      'migrations',
      `${named.length} would run: ${shown}.`,
      'The start runs them; oracle-runtime migrate runs them alone.',
    )
  } catch (error) {
    return faultOf('migrations', error)
  }
}

const marks = { ok: 'ok     ', warning: 'warning', fault: 'FAULT  ' }

const lineOf = ({ what, state, says, remedy }: Finding): string =>
  `${marks[state]}  ${what.padEnd(11)}  ${says}${remedy === undefined ? '' : ` ${remedy}`}`

function withoutSecrets(finding: Finding, masked: (text: string) => string): Finding {
  const { remedy, says } = finding
  return { ...finding, says: masked(says), ...(remedy && { remedy: masked(remedy) }) }
}
