import type { Message } from '../../plugin.ts'

/** How many characters are kept of all sessions together; the messages as they were sent to a model take as many again. */
const mostCharacters = 32 * 1024 * 1024

interface Remembered {
  readonly run: string
  readonly messages: readonly Message[]
  readonly size: number
}

/**
 * The messages of the sessions that spoke last. What is remembered of a session counts only while the run for which it was
 * remembered is the session's newest; otherwise the engine reads the journal.
 */
export class SessionMemory {
  readonly #sessions = new Map<string, Remembered>()
  #size = 0

  recall(session: string, run: string | undefined): readonly Message[] | undefined {
    const known = this.#sessions.get(session)
    return known && known.run === run ? known.messages : undefined
  }

  keep(session: string, run: string, messages: readonly Message[]): void {
    this.forget(session)
    let size = 0
    for (const message of messages) size += message.content.length + 200
    if (size > mostCharacters / 4) return
    this.#sessions.set(session, { run, messages, size })
    this.#size += size
    // A map gives its keys in the order of their coming: the first has waited longest.
    for (const oldest of this.#sessions.keys()) {
      if (this.#size <= mostCharacters) return
      this.forget(oldest)
    }
  }

  forget(session: string): void {
    this.#size -= this.#sessions.get(session)?.size ?? 0
    this.#sessions.delete(session)
  }
}
