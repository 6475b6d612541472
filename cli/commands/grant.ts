import { grantWithoutServer } from '../../core/runtime/grant-without-server.ts'
import { appOfFolder } from '../app-of-folder.ts'
import { type Command, UsageError } from '../command.ts'
import { loadEnvFileIfAny } from '../env-file.ts'

/**
 * Grants a DID rights on the oracle, in the database that the environment names. An embedded database belongs to the
 * server that runs on it: then the command asks that server, with the OPERATOR_TOKEN of the environment or of
 * DATA_DIR/dev.env.
 */
export const command: Command = {
  usage: `grant <did> '<capability>' [more] [--days 90] [--note "what for"] [--json]`,
  example: `oracle-runtime grant did:key:z6Mk… 'registry/*' --days 90 --note 'field team'`,
  notes: 'A capability is "<plugin>/read", "/write", "/admin" or "/*", "oracle/call", or "*".',
  options: { days: { type: 'string' }, note: { type: 'string' }, json: { type: 'boolean' } },
  mostPositionals: 100,
  async run(words) {
    const [did, ...capabilities] = words.positionals
    const [days, note] = [words.text('days'), words.text('note')]
    if (days !== undefined && !/^\d+$/.test(days))
      throw new UsageError(
        `--days is "${days}", which is no number of days: give 1 to 3650, in digits.`,
      )
    if (did === undefined || capabilities.length === 0)
      throw new UsageError(`Name a DID and what it may do: oracle-runtime ${command.usage}`)
    const { options } = await appOfFolder()
    const { grant, isNew } = await grantWithoutServer(loadEnvFileIfAny(), options.plugins, {
      did,
      capabilities,
      ...(days !== undefined && { days: Number(days) }),
      ...(note !== undefined && { note }),
    })
    if (words.has('json')) {
      console.log(JSON.stringify(grant, null, 2))
      return
    }
    console.log(
      isNew ? `Granted to ${grant.did}:` : `Granted already to ${grant.did}; nothing was changed:`,
    )
    console.log(`  ${grant.capabilities.join(', ')} on ${grant.resource}`)
    console.log(`  until ${grant.expiresAt}${grant.note ? `, ${grant.note}` : ''}`)
    console.log(`  id ${grant.id}: DELETE /grants/${grant.id} ends it`)
    console.log(
      `\nThe server looks the grant up by the DID. To carry the grant along, or to delegate it further:\n${grant.car}`,
    )
  },
}
