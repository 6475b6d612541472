import { createHash } from 'node:crypto'

/** The name of a turn: the same message of a context, sent again, finds it. */
export const requestIdOf = (messageId: string): string =>
  `a2a:${createHash('sha256').update(messageId).digest('hex').slice(0, 40)}`

/** The one artifact of a task: what the agent says. */
export const answerId = 'answer'
