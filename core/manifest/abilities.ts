import type { AnyRoute, Method } from '../plugin.ts'

/** What a right on the oracle's DID may let its holder do with a plugin, each including those before it. */
export const verbs: readonly string[] = ['read', 'write', 'admin']

/** The ability of talking to the agent, where ACCESS=granted asks for one. */
export const talkAbility = 'oracle/call'

/** Whether the right of one ability on the oracle's DID is enough for another: `registry/write` is for `registry/read`. */
export function covers(granted: string, asked: string): boolean {
  if (granted === '*' || granted === asked) return true
  const [owner, verb] = parted(granted)
  const [wanted, use] = parted(asked)
  if (owner !== wanted) return false
  return verb === '*' || (verbs.includes(use) && verbs.indexOf(verb) >= verbs.indexOf(use))
}

/** The ability that a `bearer` route asks for: what its `can` says, else reading for a GET and writing for the others. */
export const abilityOf = (owner: string, method: Method, { can }: AnyRoute): string =>
  can?.can ?? `${owner}/${method === 'GET' ? 'read' : 'write'}`

/** What is wrong with the `can` of a `bearer` route, as the rest of a sentence. */
export function bearerCanFault(owner: string, { can }: AnyRoute): string | undefined {
  if (can === undefined) return undefined
  const known = verbs.map((verb) => `${owner}/${verb}`)
  if (!known.includes(can.can))
    return `the "can" of a bearer route is one of ${known.join(', ')}, and here it is "${can.can}"`
  if (can.with !== undefined)
    return 'the "can" of a bearer route is about the oracle’s DID, so it takes no "with"'
  return undefined
}

/** An ability as the part before the first slash, and the rest. */
function parted(ability: string): [owner: string, verb: string] {
  const slash = ability.indexOf('/')
  return slash < 0 ? [ability, ''] : [ability.slice(0, slash), ability.slice(slash + 1)]
}
