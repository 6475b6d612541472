import type { Message } from '../../plugin.ts'
import { MessageSum } from '../model/usage/message-sum.ts'
import type { Run } from '../turns/run.ts'

type Recalling = Pick<Run, 'sessionId' | 'previous' | 'redactions'>
type Keeping = Pick<Run, 'sessionId' | 'runId' | 'redactions'>

/**
 * How many characters the memory keeps of all sessions together. The texts that a provider's wire keeps of the same
 * messages take as many again.
 */
const mostCharacters = 32 * 1024 * 1024

interface Remembered {
  readonly run: string
  readonly redactions: number
  readonly messages: readonly Message[]
  readonly size: number
}

/**
 * The messages of the sessions that had a run last, so that the next run need not read the journal. The messages of a session
 * hold only while the run that left them is the session's newest, and nothing was redacted since it began: another process may
 * have done either.
 */
export class SessionMemory {
  readonly #sessions = new Map<string, Remembered>()
  #size = 0

  /** The messages of a session as the run before this one left them; undefined when the memory does not have them. */
  recall({ sessionId, previous, redactions }: Recalling): readonly Message[] | undefined {
    const known = this.#sessions.get(sessionId)
    const holds = known?.run === previous && known?.redactions === redactions
    return holds ? known?.messages : undefined
  }

  /** Keeps the messages that a run left, unless they are very many. The sessions kept longest ago make room. */
  keep({ sessionId, runId, redactions }: Keeping, messages: readonly Message[]): void {
    this.forget(sessionId)
    const size = sizes.of(messages)
    if (size > mostCharacters / 4) return
    this.#sessions.set(sessionId, { run: runId, redactions, messages, size })
    this.#size += size
    // A map gives its keys in the order of insertion, so the first session was kept longest ago.
    for (const oldest of this.#sessions.keys()) {
      if (this.#size <= mostCharacters) return
      this.forget(oldest)
    }
  }

  /** Drops what the memory has of a session. */
  forget(session: string): void {
    this.#size -= this.#sessions.get(session)?.size ?? 0
    this.#sessions.delete(session)
  }
}

const known = new WeakMap<object, number>()

/** What a message takes beside its words: measured over the eight messages of a turn with three calls of a tool. */
const besideWords = 450

const sizes = new MessageSum((message) => message.content.length + besideWords + dataOf(message))

/** How many characters a message has for its provider. */
function dataOf(message: Message): number {
  const provider = message.role === 'assistant' ? message.provider : undefined
  if (!provider) return 0
  let size = known.get(provider)
  if (size === undefined) known.set(provider, (size = JSON.stringify(provider.data)?.length ?? 0))
  return size
}
