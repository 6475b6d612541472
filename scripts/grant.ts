import { parseArgs } from 'node:util'
import { z } from 'zod'
import { RuntimeError } from '#core'
import { grantWithoutServer } from '../core/runtime/grant-without-server.ts'
import { bundled } from '../plugins/index.ts'
import { loadEnvFileIfAny } from './env-file.ts'

// npm run grant -- <did> 'registry/*' [more …] --days 90 --note 'for the survey': grants a DID rights on the oracle.
// The program writes into the database that the environment names. An embedded database belongs to the server that runs
// on it: then the program asks that server, with the OPERATOR_TOKEN of the environment or of DATA_DIR/dev.env.
const usage = `npm run grant -- <did> '<capability>' [more] [--days 90] [--note "what for"] [--json]
A capability is "<plugin>/read", "/write", "/admin" or "/*", "oracle/call", or "*".`

try {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: {
      days: { type: 'string' },
      note: { type: 'string' },
      json: { type: 'boolean' },
      help: { type: 'boolean' },
    },
  })
  const [did, ...capabilities] = positionals
  if (values.days !== undefined && !/^\d+$/.test(values.days))
    throw new Error(
      `--days is "${values.days}", which is no number of days: give 1 to 3650, in digits.`,
    )
  if (values.help || did === undefined || capabilities.length === 0) {
    console.log(usage)
    process.exit(values.help ? 0 : 1)
  }
  const { grant, isNew } = await grantWithoutServer(loadEnvFileIfAny(), bundled, {
    did,
    capabilities,
    ...(values.days !== undefined && { days: Number(values.days) }),
    ...(values.note !== undefined && { note: values.note }),
  })
  if (values.json) console.log(JSON.stringify(grant, null, 2))
  else {
    console.log(
      isNew ? `Granted to ${grant.did}:` : `Granted already to ${grant.did}; nothing was changed:`,
    )
    console.log(`  ${grant.capabilities.join(', ')} on ${grant.resource}`)
    console.log(`  until ${grant.expiresAt}${grant.note ? `, ${grant.note}` : ''}`)
    console.log(`  id ${grant.id}: DELETE /grants/${grant.id} ends it`)
    console.log(
      `\nThe server looks the grant up by the DID. To carry the grant along, or to delegate it further:\n${grant.car}`,
    )
  }
} catch (error) {
  const known = error instanceof RuntimeError
  const sentence = error instanceof Error ? error.message : String(error)
  console.error(known && error.hint ? `${sentence} ${error.hint}` : sentence)
  // The message names only the first fault, so the program lists all of several faults.
  const faults = z.array(z.object({ path: z.string(), message: z.string() })).min(2)
  const { data } = faults.safeParse(known ? error.details : undefined)
  for (const { path, message } of data ?? []) console.error(`  ${path}: ${message}`)
  process.exit(1)
}
