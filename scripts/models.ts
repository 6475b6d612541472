import { createInterface } from 'node:readline/promises'
import { parseArgs } from 'node:util'
import { RuntimeError, type AnyPlugin, type Model, type ModelProvider } from '#core'
import { didYouMean } from '../core/manifest/did-you-mean.ts'
import { OpenedLater, openedModel } from '../core/runtime/model/opened-later.ts'
import { SettingsOfModels } from '../core/runtime/model/settings.ts'
import { models as bundled } from '../plugins/models.ts'
import { loadEnvFileIfAny } from '../cli/env-file.ts'
import { callsOfContract, checkModel } from './model-check.ts'

// npm run models [<provider>]: lists the models that the keys reach. npm run models -- --check <id> [--yes]: lets a model
// show that it keeps the contract of models, on its real provider. With --reasoning <effort> it thinks meanwhile.

/** How long a provider may take to list its models. */
const patienceMs = 20_000
/** A shorter value of a variable is a word and no key. */
const leastSecret = 6

const efforts = ['none', 'low', 'medium', 'high', 'max'] as const

const env = loadEnvFileIfAny()
const quiet = () => {}
const log = { debug: quiet, info: quiet, warn: quiet, error: quiet }

/** A provider of a plugin, with the plugin's own variables. */
interface Known {
  readonly provider: ModelProvider<any, any> // any: each plugin knows the types of its own variables
  readonly env: Readonly<Record<string, string | undefined>>
}

const known = new Map(bundled.flatMap((plugin) => providersOf(plugin)))
const { faults, of: settingsOf } = readSettings()
/** What no line may hold: the value of every variable that sounds like a key, also of packages that no plugin knows. */
const secrets = new Set(
  Object.entries(env).flatMap(([name, value]) =>
    value && value.length >= leastSecret && /(KEY|TOKEN|SECRET|PASSWORD)$/.test(name)
      ? [value]
      : [],
  ),
)

try {
  process.exitCode = await main()
} catch (error) {
  say(error instanceof RuntimeError ? [error.message, error.hint].join(' ').trim() : String(error))
  process.exitCode = 1
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { check: { type: 'string' }, yes: { type: 'boolean' }, reasoning: { type: 'string' } },
  })
  for (const fault of faults) say(fault.message)
  if (faults.length > 0) return 1
  if (values.check !== undefined) {
    const reasoning = efforts.find((effort) => effort === values.reasoning)
    if (values.reasoning !== undefined && reasoning === undefined) {
      say(`--reasoning is one of ${efforts.join(', ')}.`)
      return 1
    }
    return (await check(values.check, values.yes === true, reasoning)) ? 0 : 1
  }
  const [wanted] = positionals
  if (wanted !== undefined && !known.has(wanted)) {
    const like = didYouMean(wanted, [...known.keys()])
    say(`No plugin brings "${wanted}".${like ? ` Did you mean "${like}"?` : ''}`)
    return 1
  }
  await list(wanted === undefined ? [...known.keys()] : [wanted])
  return 0
}

/** Lists the models of providers, all asked at once. */
async function list(names: readonly string[]): Promise<void> {
  const lists = names.map(async (name): Promise<readonly string[]> => {
    const { provider, env: own } = owner(name)
    if (provider.standIn) return [`${name}: needs no key`]
    if (!provider.list) return [`${name}: cannot list its models`]
    const unset = unsetNeed(name)
    if (unset !== undefined) return [`${name}: ${unset} is not set`]
    try {
      const signal = AbortSignal.timeout(patienceMs)
      const found = await provider.list(signal, { env: own, self: undefined, fetch, log })
      const lines = found.map((model) => `  ${name}/${model}`)
      return [`${name} (${provider.label}): ${found.length || 'no'} models`, ...lines]
    } catch (error) {
      return [`${name} (${provider.label}): ${wordsOf(error)}`]
    }
  })
  for (const lines of lists) for (const line of await lines) say(line)
}

/** Lets a model show that it keeps the contract. */
async function check(
  id: string,
  isAgreed: boolean,
  reasoning?: (typeof efforts)[number],
): Promise<boolean> {
  const slash = id.indexOf('/')
  const name = slash < 0 ? id : id.slice(0, slash)
  const model = slash < 0 ? '' : id.slice(slash + 1)
  const fault = faultOf(id, name, model)
  if (fault !== undefined) {
    say(fault)
    return false
  }
  const settings = settingsOf([id])
  const key = settings.keyFrom === undefined ? undefined : env[settings.keyFrom]
  if (key) secrets.add(key)
  const { provider, env: own } = owner(name)
  const open = async (): Promise<Model> => {
    const opened = new OpenedLater({
      id,
      settings,
      open: () => provider.open(model, { env: own, self: undefined, settings, fetch, log, key }),
    })
    await openedModel(opened)
    return opened
  }
  say(
    `The contract makes at most ${callsOfContract()} calls of ${id}. The provider may charge for them.`,
  )
  if (!isAgreed && !(await isWanted())) {
    say('Nothing was asked. Say --yes to go on without this question.')
    return false
  }
  const ofNeeds = (provider.needs ?? []).flat().map((need) => own[need])
  return checkModel({
    open,
    say,
    key: key ?? ofNeeds.find((value) => value !== undefined && secrets.has(value)),
    ...(reasoning && { settings: { reasoning } }),
  })
}

/** Why a model cannot be asked; undefined where it can. */
function faultOf(id: string, name: string, model: string): string | undefined {
  const entry = known.get(name)
  if (!entry) {
    const like = didYouMean(name, [...known.keys()])
    return `"${id}" is of no provider.${like ? ` Did you mean "${like}${id.slice(name.length)}"?` : ''}`
  }
  const { provider, env: own } = entry
  const settings = settingsOf([id])
  if (provider.standIn ? id !== name : model === '')
    return `"${id}" names no model: write ${provider.standIn ? name : `${name}/<name>`}.`
  const unset =
    settings.keyFrom === undefined && settings.baseUrl === undefined
      ? unsetNeed(name)
      : settings.keyFrom !== undefined && !env[settings.keyFrom]
        ? settings.keyFrom
        : undefined
  if (unset !== undefined) return `"${id}" needs ${unset}, which is not set.`
  const key = settings.keyFrom === undefined ? undefined : env[settings.keyFrom]
  const fault = provider.fault?.(model, { env: own, settings, key })
  return fault && `${fault.message} ${fault.hint}`
}

/** A variable that a provider needs and that is not set. */
function unsetNeed(name: string): string | undefined {
  const { provider, env: own } = owner(name)
  return (provider.needs ?? [])
    .map((need) => (typeof need === 'string' ? [need] : need))
    .find((either) => !either.some((one) => own[one]))?.[0]
}

async function isWanted(): Promise<boolean> {
  if (!process.stdin.isTTY) return false
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  const answer = await terminal.question('Go on? [y/N] ')
  terminal.close()
  return /^y(es)?$/i.test(answer.trim())
}

function owner(name: string): Known {
  const found = known.get(name)
  if (!found) throw new Error(`No plugin brings "${name}".`)
  return found
}

function providersOf({ definition }: AnyPlugin): [string, Known][] {
  const { models } = definition
  if (typeof models !== 'object') return []
  const own = Object.fromEntries(
    Object.keys(definition.env ?? {}).map((name) => [name, env[name] || undefined]),
  )
  return Object.entries(models).map(([name, provider]) => [name, { provider, env: own }])
}

function readSettings() {
  const read = new SettingsOfModels(undefined, env.MODEL_SETTINGS)
  return { faults: read.faults, of: (ids: readonly string[]) => read.of(ids) }
}

/** What an error says, with what its cause says of it for the operator. */
function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const cause = error.cause instanceof Error ? ` (${error.cause.message})` : ''
  return `${error.message}${cause}`
}

/** Prints a line in which no key stands. */
function say(line: string): void {
  let safe = line
  for (const secret of secrets) safe = safe.replaceAll(secret, '[key]')
  console.log(safe)
}
