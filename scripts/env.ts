import { allVariables } from './variables.ts'
import { loadEnvFileIfAny } from './env-file.ts'
import { table } from './table.ts'

// Every variable that the kernel and the bundled plugins read, from their schemas.
const env = loadEnvFileIfAny()
const rows = allVariables().map((variable) => [
  variable.name,
  variable.owner,
  env[variable.name] ? 'set' : variable.required ? 'unset, required' : 'unset',
  variable.default ??
    (variable.generated ? '(generated in development)' : variable.secret ? '(secret)' : '-'),
  variable.description,
])
console.log(table(['variable', 'of', 'now', 'default', 'what it does'], rows))
