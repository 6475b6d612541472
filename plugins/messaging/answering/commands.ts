import type { People } from '../people/people.ts'

/** What a command may use. */
export interface CommandContext {
  readonly people: People
  readonly account: string
  readonly isDirect: boolean
  readonly isGuest: boolean
  readonly did: string
  readonly argument: string
  /** Where people find the oracle's page. */
  readonly url: string
  /** Stops what is under way in the session; false where there was nothing. */
  stop(): Promise<boolean>
  /** Begins another session in this place. */
  renew(): Promise<void>
}

type Command = (ctx: CommandContext) => Promise<string>

const help = [
  'Write to me as to a person. In a room with others, mention me.',
  '- `!new` begins another conversation',
  '- `!stop` ends what I am doing',
  '- `!link CODE` links this account to you; the code is on my page',
  '- `!unlink` ends that',
  '- `!status` says who I take you for',
  '- `!capabilities` says how to learn what I can do',
].join('\n')

const commands: Readonly<Record<string, Command>> = {
  help: async () => help,
  capabilities: async () => 'Ask me: What can you do?',
  async new({ renew }) {
    await renew()
    return 'A new conversation. What was said before is no part of it.'
  },
  stop: async ({ stop }) => ((await stop()) ? 'Stopped.' : 'Nothing was under way.'),
  async link({ people, account, isDirect, argument, url }) {
    if (!isDirect) return 'Write that to me in a direct room: a code is for nobody else.'
    if (argument === '') return `Get a code at ${url}, then write \`!link CODE\`.`
    const linked = await people.useCode(account, argument)
    if (linked === 'resting') return 'That were too many wrong codes. Try again in an hour.'
    if (linked === 'wrong') return `That code is wrong, used or too old. Get another one at ${url}.`
    return 'This account is linked to you now.'
  },
  async unlink({ people, account }) {
    return (await people.unlink(account))
      ? 'This account is no longer linked.'
      : 'This account was not linked.'
  },
  async status({ isGuest, did, url }) {
    if (isGuest) return `I take you for a guest. Get a code at ${url} and write \`!link CODE\`.`
    return `I take you for ${did}.`
  },
}

/** Does what a message commands; undefined where it is no command. */
export async function commanded(
  text: string,
  ctx: Omit<CommandContext, 'argument'>,
): Promise<string | undefined> {
  const [, name = '', argument = ''] = /^!([a-z]+)(?:\s+(\S+))?\s*$/i.exec(text) ?? []
  const word = name.toLowerCase()
  const command = Object.hasOwn(commands, word) ? commands[word] : undefined
  return command?.({ ...ctx, argument })
}
