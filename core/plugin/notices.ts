/**
 * What a notice tells of: words that a plugin said, a turn of a plugin that ended, failed or waits for a person, or a job
 * that nobody tries any more.
 */
export type NoticeKind = 'say' | 'ended' | 'failed' | 'asks' | 'job'

/** Something that a user should know, also where no page of the app is open. */
export interface Notice {
  /** Rises with every notice of this user; of two users, notices may have the same. */
  readonly id: number
  /** The DID of the user. */
  readonly user: string
  /** What the notice tells of. */
  readonly kind: NoticeKind
  /** The plugin that spoke, whose turn it is, or whose job it was. */
  readonly plugin: string
  /** The title of the session, or the name of the plugin. */
  readonly title: string
  /** A sentence, or the beginning of what was said: 200 characters at most. */
  readonly text: string
  /** The conversation that the notice is about. */
  readonly sessionId?: string
  /** The run that the notice is about. */
  readonly runId?: string
  /** When the notice was made, as ISO text. */
  readonly createdAt: string
}
