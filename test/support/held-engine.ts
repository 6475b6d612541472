import type { Engine } from '../../core/runtime/turns/run.ts'
import { say, stopped } from './fake-engines.ts'

/** A fake of the engine whose answers to messages that begin with `hold` wait for the test. */
export interface HeldEngine {
  readonly engine: Engine
  /** The messages whose turns have begun, in order; one that another process took over stands there again. */
  readonly ran: readonly string[]
  /** Lets the answers to this message go on. */
  release(message: string): void
}

/** Says first words, the rest once it may, and repeats the message. */
export function heldEngine(): HeldEngine {
  const ran: string[] = []
  const held = new Map<string, PromiseWithResolvers<void>>()
  const heldBy = (message: string) => {
    const known = held.get(message) ?? Promise.withResolvers<void>()
    held.set(message, known)
    return known
  }
  return {
    ran,
    release: (message) => heldBy(message).resolve(),
    engine: async (run) => {
      const { message } = run.request
      ran.push(message)
      run.emit('message', { content: 'Well: ' })
      if (message.startsWith('hold')) {
        const aborted = new Promise<void>((resolve) =>
          run.signal.addEventListener('abort', () => resolve(), { once: true }),
        )
        if (!run.signal.aborted) await Promise.race([heldBy(message).promise, aborted])
      }
      if (run.signal.aborted) return stopped(run, 'Well: ')
      run.emit('message', { content: message })
      await say(run, `Well: ${message}`)
      return { status: 'finished' }
    },
  }
}
