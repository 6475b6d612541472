import { createHash } from 'node:crypto'
import { channelOf } from '../store/channels/channels.ts'

/** The channel on which every replica learns that words of others may be lost. */
export const noticeChannel = 'kernel_notices'

/** The channel on which replicas tell each other what the listeners of one user are to hear, by `nameOnChannel`. */
export const channelOfUser = (name: string): string => channelOf('kernel_user', name)

/** An event that listeners get at once and that is kept nowhere. */
export interface Hint {
  readonly event: 'session' | 'run' | 'seen'
  readonly data: Readonly<Record<string, unknown>>
}

/** What one replica tells another: a user has a new notice, or there is a hint for the user. */
export interface NoticeWord {
  readonly to: string
  readonly hint?: Hint
}

/** The names of users who were named last, and how many: every turn of a user names the user a few times. */
const names = new Map<string, string>()
const mostNames = 2_000

/** The name of a user on the channel: short, whatever the DID's length. */
export function nameOnChannel(did: string): string {
  const known = names.get(did)
  if (known !== undefined) return known
  const name = createHash('sha256').update(did).digest('base64url').slice(0, 22)
  if (names.size >= mostNames) names.clear()
  names.set(did, name)
  return name
}

/** Says that a user has a new notice. */
export const wordOfNotice = (did: string): string => JSON.stringify({ to: nameOnChannel(did) })

/** The size of one message: PostgreSQL takes less than 8,000 bytes. */
const mostBytes = 7_000

/** As many of the first words as the channel takes in one message, and how many these are. */
export function channelMessage(words: readonly NoticeWord[]): { message: string; count: number } {
  let message = ''
  let count = 0
  for (const word of words) {
    const longer = `${message}${message && '\n'}${JSON.stringify(word)}`
    if (count > 0 && Buffer.byteLength(longer) > mostBytes) break
    message = longer
    count++
  }
  return { message, count }
}

/** Reads the words of a message, and leaves out those whose form is not known: another version of the runtime may write them. */
export function readNoticeWords(message: string): NoticeWord[] {
  return message.split('\n').flatMap((line) => {
    try {
      const { to, hint }: Partial<NoticeWord> = JSON.parse(line) // written by a replica
      return typeof to === 'string' ? [{ to, hint: isHint(hint) ? hint : undefined }] : []
    } catch {
      return []
    }
  })
}

const isHint = (hint: Hint | undefined): hint is Hint =>
  typeof hint?.event === 'string' && typeof hint.data === 'object'
