import { setTimeout as sleep } from 'node:timers/promises'
import { RuntimeError } from '../../../errors.ts'

/** How often somebody looks whether a turn has ended, and how long a turn that was stopped may take. */
export const patience = { ms: 30_000, everyMs: 100 }

/** What is asked of a turn until it has ended. */
export interface Ending {
  /** Whether a run of the turn has yet to end. */
  isOpen(): Promise<boolean>
  /** Stops the turn; called again at every look, because a word to another process may be lost. */
  stop(): Promise<void>
  readonly ms?: number
  /** What stands where the turn does not end in time. */
  readonly fault: string
}

/** Stops a turn and waits until it has ended. */
export async function untilEnded({ isOpen, stop, fault, ms = patience.ms }: Ending): Promise<void> {
  const until = performance.now() + ms
  while (await isOpen()) {
    await stop()
    if (performance.now() > until)
      throw new RuntimeError('UNAVAILABLE', fault, { hint: 'Ask for it again in a moment.' })
    await sleep(patience.everyMs)
  }
}
