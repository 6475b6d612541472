import { setTimeout as pause } from 'node:timers/promises'
import { RuntimeError } from '../../../errors.ts'
import type { Message } from '../../../plugin.ts'
import { fieldsIn } from '../../base/fields.ts'

/** How often the same call may fail in a run before the guard refuses it. */
const patience = 3

/** Remembers the calls that failed in a run, so that a model does not repeat the same call for ever. */
export class RepetitionGuard {
  readonly #failures = new Map<string, number>()

  /** Counts the failures in the messages of a journal, so that the count holds when another process takes over the run. */
  constructor(messages: readonly Message[] = []) {
    const argsOf = new Map<string, unknown>()
    for (const message of messages) {
      if (message.role === 'assistant')
        for (const call of message.toolCalls ?? []) argsOf.set(call.id, call.args)
      if (message.role === 'tool')
        this.note(message.name, argsOf.get(message.toolCallId), message.failed === true)
    }
  }

  /** Refuses a call that failed `patience` times with the same arguments. */
  check(name: string, args: unknown): void {
    if ((this.#failures.get(keyOf(name, args)) ?? 0) < patience) return
    throw new RuntimeError(
      'REPEATED_CALL',
      `"${name}" has failed ${patience} times with these same arguments, so it was not tried again.`,
      { hint: 'Change the arguments, use another tool, or tell the user what does not work.' },
    )
  }

  /** Notes how a call ended. After a success the count of failures begins anew. */
  note(name: string, args: unknown, failed: boolean): void {
    const key = keyOf(name, args)
    if (failed) this.#failures.set(key, (this.#failures.get(key) ?? 0) + 1)
    else this.#failures.delete(key)
  }
}

const keyOf = (name: string, args: unknown) => `${name} ${JSON.stringify(args)}`

/** The pause before the second try: a short failure can pass in this time, and a user does not notice it. Later pauses double. */
const secondTryMs = 250
const longestPauseMs = 4000

/** Tries again, so many times, when the fault is one that often passes in a moment. */
export async function retryTransient<T>(
  attempt: () => Promise<T>,
  times = 0,
  signal: AbortSignal,
): Promise<T> {
  for (let tried = 0; ; tried++)
    try {
      return await attempt()
    } catch (error) {
      if (tried >= times || !isTransient(error) || signal.aborted) throw error
      await pause(Math.min(secondTryMs * 2 ** tried, longestPauseMs), undefined, { signal })
    }
}

const transientCodes = new Set(['UPSTREAM_FAILED', 'UPSTREAM_TIMEOUT', 'UNAVAILABLE'])
const brokenConnections =
  /^(ECONNRESET|ECONNREFUSED|EPIPE|ETIMEDOUT|EAI_AGAIN|UND_ERR_SOCKET|UND_ERR_CONNECT_TIMEOUT)$/

function isTransient(error: unknown): boolean {
  if (error instanceof RuntimeError) return transientCodes.has(error.code)
  const { code } = fieldsIn(error)
  if (typeof code === 'string' && brokenConnections.test(code)) return true
  // The global fetch throws a TypeError, and the fault of the connection is its cause.
  return error instanceof TypeError && error.cause !== undefined && isTransient(error.cause)
}
