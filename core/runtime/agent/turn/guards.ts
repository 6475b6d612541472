import { setTimeout as pause } from 'node:timers/promises'
import { RuntimeError } from '../../../errors.ts'
import type { Message } from '../../../plugin.ts'
import { fieldsIn } from '../../base/fields.ts'

/** How often one call may fail in a run before it is no longer carried out. */
const patience = 3

/** Remembers the calls that failed in a run, so that a model does not try the same for ever. */
export class RepetitionGuard {
  readonly #failures = new Map<string, number>()

  /** Counts what a journal holds: a guard forgets nothing when another process takes over. */
  constructor(messages: readonly Message[] = []) {
    const argsOf = new Map<string, unknown>()
    for (const message of messages) {
      if (message.role === 'assistant')
        for (const call of message.toolCalls ?? []) argsOf.set(call.id, call.args)
      if (message.role === 'tool')
        this.note(message.name, argsOf.get(message.toolCallId), message.failed === true)
    }
  }

  /** Refuses a call that failed three times with the very same arguments. */
  check(name: string, args: unknown): void {
    if ((this.#failures.get(keyOf(name, args)) ?? 0) < patience) return
    throw new RuntimeError(
      'REPEATED_CALL',
      `"${name}" has failed ${patience} times with these same arguments, so it was not tried again.`,
      { hint: 'Change the arguments, use another tool, or tell the user what does not work.' },
    )
  }

  note(name: string, args: unknown, failed: boolean): void {
    const key = keyOf(name, args)
    if (failed) this.#failures.set(key, (this.#failures.get(key) ?? 0) + 1)
    else this.#failures.delete(key)
  }
}

const keyOf = (name: string, args: unknown) => `${name} ${JSON.stringify(args)}`

/** How long a second try waits: long enough for a short failure to pass, short enough for no user to notice. */
const secondTryMs = 250

/** Tries a read once more when what failed may be well in a moment. */
export async function twiceIfTransient<T>(
  attempt: () => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  try {
    return await attempt()
  } catch (error) {
    if (!isTransient(error) || signal.aborted) throw error
    await pause(secondTryMs, undefined, { signal })
    return await attempt()
  }
}

const transientCodes = new Set(['UPSTREAM_FAILED', 'UPSTREAM_TIMEOUT', 'UNAVAILABLE'])
const brokenConnections =
  /^(ECONNRESET|ECONNREFUSED|EPIPE|ETIMEDOUT|EAI_AGAIN|UND_ERR_SOCKET|UND_ERR_CONNECT_TIMEOUT)$/

function isTransient(error: unknown): boolean {
  if (error instanceof RuntimeError) return transientCodes.has(error.code)
  const { code } = fieldsIn(error)
  if (typeof code === 'string' && brokenConnections.test(code)) return true
  // The global fetch wraps what broke in a TypeError.
  return error instanceof TypeError && error.cause !== undefined && isTransient(error.cause)
}
