import type { Variable } from '../core/manifest/env.ts'
import { allVariables, providerVariables } from './variables.ts'
import { loadEnvFileIfAny } from './env-file.ts'
import { table, wrapped } from './table.ts'

// Prints every variable that the kernel and the bundled plugins read, for a terminal of 100 columns: a line of the table
// for each variable, and below the line what the variable does.
const width = 100
/** The widest default that fits into the table; a longer one is printed below the line. */
const widestDefault = 27

const env = loadEnvFileIfAny()
const variables = allVariables()
const rows = variables.map((variable) => {
  const { name, owner, required } = variable
  const now = env[name] ? 'set' : required ? 'unset, required' : 'unset'
  const value = defaultOf(variable)
  return [name, owner, now, value.length > widestDefault ? '(below)' : value]
})
const [head = '', rule = '', ...lines] = table(['variable', 'of', 'now', 'default'], rows).split(
  '\n',
)
console.log(`${head}\n${rule}`)
for (const [index, variable] of variables.entries()) {
  console.log(lines[index])
  const value = defaultOf(variable)
  const tail = value.length > widestDefault ? `. Default: ${value}` : ''
  console.log(wrapped(variable.description + tail, width, '    '))
}

console.log('\nProviders of models: what MODEL and EMBEDDING_MODEL name needs its own')
const ofProviders = providerVariables().map(({ name, description }) => [
  name,
  env[name] ? 'set' : 'unset',
  description,
])
console.log(table(['variable', 'now', 'what it is'], ofProviders))

function defaultOf({ default: value, generated, secret }: Variable): string {
  if (value !== undefined) return value
  if (generated) return '(generated in development)'
  return secret ? '(secret)' : '-'
}
