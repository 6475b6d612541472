import { createInterface } from 'node:readline/promises'
import type { AnyPlugin } from '#core'
import { models as bundled } from '../../plugins/models.ts'
import { appOfFolder, isAppFolder } from '../app-of-folder.ts'
import { type Command, UsageError } from '../command.ts'
import { loadEnvFileIfAny } from '../env-file.ts'
import { callsOfContract, checkModel } from '../model-check.ts'
import { ModelProviders } from '../model-providers.ts'

const efforts = ['none', 'low', 'medium', 'high', 'max'] as const

/** Lists the models that the keys reach, or lets one show on its real provider that it keeps the contract of models. */
export const command: Command = {
  usage: 'models [<provider>] | models --check <id> [--yes] [--reasoning <effort>]',
  example: 'oracle-runtime models --check anthropic/<name> --reasoning low',
  notes:
    'Providers are those of this package, and those of the app in this folder. --check says first how many calls it\n' +
    `makes, and asks, or takes --yes. The effort is one of ${efforts.join(', ')}.`,
  options: { check: { type: 'string' }, yes: { type: 'boolean' }, reasoning: { type: 'string' } },
  mostPositionals: 1,
  async run(words) {
    const given = words.text('reasoning')
    const reasoning = efforts.find((effort) => effort === given)
    if (given !== undefined && reasoning === undefined)
      throw new UsageError(`--reasoning is one of ${efforts.join(', ')}.`)
    const providers = await ModelProviders.open(await pluginsHere(), loadEnvFileIfAny())
    const say = (line: string) => console.log(providers.safe(line))
    for (const fault of providers.faults) say(fault)
    if (providers.faults.length > 0) return 1
    const id = words.text('check')
    if (id === undefined) return await list(providers, words.positionals[0], say)
    const isGood = await check(providers, {
      ...{ id, say, isAgreed: words.has('yes') },
      ...(reasoning && { settings: { reasoning } }),
    })
    return isGood ? 0 : 1
  },
}

type Say = (line: string) => void

/** The plugins of the app of this folder, where there is one, before those of this package. */
async function pluginsHere(): Promise<readonly AnyPlugin[]> {
  if (!isAppFolder()) return bundled
  const { options } = await appOfFolder()
  const own = options.plugins.filter(({ definition }) => definition.models !== undefined)
  return [...own, ...bundled]
}

/** Lists the models of providers, all asked at once. */
async function list(
  providers: ModelProviders,
  wanted: string | undefined,
  say: Say,
): Promise<number> {
  const meant = wanted === undefined ? undefined : providers.unknown(wanted)
  if (meant !== undefined) {
    say(`No plugin brings "${wanted}".${meant && ` Did you mean "${meant}"?`}`)
    return 1
  }
  const names = wanted === undefined ? providers.names : [wanted]
  const lists = names.map((name) => providers.list(name))
  for (const lines of lists) for (const line of await lines) say(line)
  return 0
}

/** Lets a model show that it keeps the contract. */
async function check(
  providers: ModelProviders,
  asked: Pick<Parameters<typeof checkModel>[0], 'settings' | 'say'> & {
    readonly id: string
    readonly isAgreed: boolean
  },
): Promise<boolean> {
  const { id, isAgreed, say, settings } = asked
  const fault = providers.faultOf(id)
  if (fault !== undefined) {
    say(fault)
    return false
  }
  const key = providers.keyOf(id)
  const calls = callsOfContract()
  say(`The contract makes at most ${calls} calls of ${id}. The provider may charge for them.`)
  if (!isAgreed && !(await isWanted())) {
    say('Nothing was asked. Say --yes to go on without this question.')
    return false
  }
  return checkModel({ open: () => providers.openModel(id), say, settings, ...(key && { key }) })
}

async function isWanted(): Promise<boolean> {
  if (!process.stdin.isTTY) return false
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  const answer = await terminal.question('Go on? [y/N] ')
  terminal.close()
  return /^y(es)?$/i.test(answer.trim())
}
