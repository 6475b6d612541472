import { z } from 'zod'
import { talkAbility, verbs } from '../../../manifest/abilities.ts'
import { meant } from '../../../manifest/did-you-mean.ts'
import { isCallerDid, type Did } from '../did/did.ts'
import type { GrantRequest } from './grants.ts'
import { prepareSchema } from '../../http/routes/input.ts'
import type { PluginRecord } from '../../base/plugin-record.ts'

/** What the schema of a grant checks it against. */
export interface Grantable {
  readonly records: readonly PluginRecord[]
  /** The DIDs of the oracle itself, which nobody grants anything to. */
  readonly ownDids: readonly string[]
}

/** A token that holds more could not be verified. */
const maxCapabilities = 8
const maxDays = 3650
const maxNote = 500

/** The body of `POST /grants`. Every check looks at the plugins anew, for some join after the start. */
export function grantSchema({ records, ownDids }: Grantable) {
  return z.object({
    did: z
      .string()
      .max(128)
      .refine(
        (did) => isCallerDid(did),
        'not a DID that can call: did:key with an Ed25519 key, or did:ixo',
      )
      .refine((did) => !ownDids.includes(did), 'the oracle’s own DID, which needs no grant'),
    capabilities: z
      .array(z.string().max(100))
      .min(1, 'name at least one, such as "<plugin>/read"')
      .max(maxCapabilities, `at most ${maxCapabilities}; "<plugin>/*" is one`)
      .superRefine((abilities, ctx) => {
        // The list is bounded by now, or the length has been refused: look at no more than that.
        for (const [place, ability] of abilities.slice(0, maxCapabilities).entries()) {
          const message =
            abilities.indexOf(ability) < place
              ? `"${ability}" stands twice`
              : abilityFault(ability, records)
          if (message !== undefined) ctx.addIssue({ code: 'custom', path: [place], message })
        }
      }),
    days: z
      .number()
      .int('a whole number of days')
      .min(1, 'at least 1')
      .max(maxDays, `at most ${maxDays}`)
      .default(90)
      .describe('How long it lasts'),
    note: z.string().trim().min(1).max(maxNote).optional().describe('For the operator'),
  })
}

/** Checks a grant as the route does, or throws the fault that the route answers. */
export async function readGrantRequest(
  grantable: Grantable,
  request: unknown,
): Promise<GrantRequest> {
  const read = await prepareSchema(grantSchema(grantable))(request)
  return checkedGrant(read as z.output<ReturnType<typeof grantSchema>>)
}

/** A grant that the schema has read, with its DID as a checked one. */
export const checkedGrant = (read: z.output<ReturnType<typeof grantSchema>>): GrantRequest => ({
  ...read,
  did: read.did as Did,
})

function abilityFault(ability: string, records: readonly PluginRecord[]): string | undefined {
  if (ability === '*' || ability === talkAbility) return undefined
  const slash = ability.indexOf('/')
  const form = `write "*", "${talkAbility}", or "<plugin>/<verb>" with ${verbs.join(', ')} or *`
  if (slash < 1) return `"${ability}" is no capability; ${form}`
  const owner = ability.slice(0, slash)
  const verb = ability.slice(slash + 1)
  const record = records.find(({ name }) => name === owner)
  const named = records.flatMap(abilitiesNamed)
  if (named.includes(ability)) return undefined
  if (!record) {
    const names = records.map(({ name }) => name)
    return `there is no plugin "${owner}". ${meant(owner, names) || `There are ${names.join(', ')}.`}`
  }
  if (verb === '*' || verbs.includes(verb)) return undefined
  return `"${verb}" is no verb of ${owner}: ${form}. ${meant(verb, verbs)}`.trim()
}

/** What a plugin asks of those who see it, and what its routes and tools ask on a resource of their own choice: maybe the oracle. */
function abilitiesNamed({ tools, routes, definition }: PluginRecord): string[] {
  const own = definition.can === undefined ? [] : [definition.can]
  const asked = [...Object.values(tools), ...Object.values(routes)].flatMap(({ can }) =>
    can?.with ? [can.can] : [],
  )
  return [...own, ...asked]
}
