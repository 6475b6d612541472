import { describeVariables, type Variable } from '../../core/manifest/env.ts'
import { kernelEnv } from '../../core/manifest/kernel-env.ts'
import type { AnyPlugin } from '../../core/plugin.ts'
import { appOfFolder } from '../app-of-folder.ts'
import type { Command } from '../command.ts'
import { loadEnvFileIfAny } from '../env-file.ts'
import { table, wrapped } from '../table.ts'

/** How many columns the terminal has that this is printed for. */
const width = 100
/** The widest default that fits into the table; a longer one is printed below the line. */
const widestDefault = 27

/**
 * Prints every variable that the kernel and the plugins of the app read: a line of the table for each variable, and
 * below the line what the variable does.
 */
export const command: Command = {
  usage: 'env',
  example: 'oracle-runtime env',
  notes: 'Each variable may also stand in a file: <NAME>_FILE is the path of that file.',
  async run() {
    const { options } = await appOfFolder()
    const env = loadEnvFileIfAny()
    printVariables(env, [
      ...describeVariables('kernel', kernelEnv),
      ...options.plugins.flatMap(variablesOf),
    ])
    const { models } = await import('../../plugins/models.ts')
    console.log('\nProviders of models: what MODEL and EMBEDDING_MODEL name needs its own')
    const ofModels = models.flatMap(variablesOf)
    const printed = table(
      ['variable', 'now'],
      ofModels.map(({ name }) => [name, stateOf(env, name)]),
    )
    const [head, rule, ...lines] = printed.split('\n')
    console.log(`${head}\n${rule}`)
    for (const [index, { description }] of ofModels.entries())
      console.log(`${lines[index]}\n${wrapped(description, width, '    ')}`)
  },
}

const variablesOf = ({ name, definition }: AnyPlugin) =>
  describeVariables(name, definition.env ?? {})

type Env = ReturnType<typeof loadEnvFileIfAny>

function stateOf(env: Env, name: string): string {
  if (env[name]) return 'set'
  return env[`${name}_FILE`] ? 'in a file' : 'unset'
}

function printVariables(env: Env, variables: readonly Variable[]): void {
  const rows = variables.map((variable) => {
    const { name, owner, required, generated } = variable
    const state = stateOf(env, name)
    // In development a value is made for what is missing.
    const isMissing = state === 'unset' && required && !generated
    const now = isMissing ? 'unset, required' : state
    const value = defaultOf(variable)
    return [name, owner, now, value.length > widestDefault ? '(below)' : value]
  })
  const printed = table(['variable', 'of', 'now', 'default'], rows)
  const [head = '', rule = '', ...lines] = printed.split('\n')
  console.log(`${head}\n${rule}`)
  for (const [index, variable] of variables.entries()) {
    console.log(lines[index])
    const value = defaultOf(variable)
    const tail = value.length > widestDefault ? `. Default: ${value}` : ''
    console.log(wrapped(variable.description + tail, width, '    '))
  }
}

function defaultOf({ default: value, generated }: Variable): string {
  if (value !== undefined) return value
  if (generated) return '(generated in development)'
  return '-'
}
