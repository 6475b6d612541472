import { instructionsFault } from '../../../manifest/kernel-env.ts'
import type { Log } from '../../../plugin.ts'
import type { Instructions } from '../../../plugin/context.ts'
import { underWay } from '../../watchdog/under-way.ts'
import type { Turn } from '../turn/turn.ts'

/** The app's instructions for one turn. When the function throws or answers with anything but text, the turn goes on without. */
export function personaOf(instructions: Instructions | undefined, turn: Turn, log: Log): string {
  if (typeof instructions !== 'function') return instructions?.trim() ?? ''
  const { user, session, room, requestId, signal, model } = turn
  underWay('instructions of the app')
  let text: unknown
  try {
    text = instructions({ user, session, room, requestId, signal, model })
  } catch (err) {
    log.error({ err, requestId }, 'The instructions of the app failed, and are left out of a turn')
    return ''
  }
  if (text === undefined) return ''
  // The turn does not wait for a promise, and a promise that rejects must not end the process as an unhandled rejection.
  if (text instanceof Promise)
    text.catch((err: unknown) =>
      log.error(
        { err, requestId },
        'The instructions of the app answered with a promise that fails',
      ),
    )
  const fault = instructionsFault(text)
  if (fault === undefined) return String(text).trim()
  log.error({ requestId }, `${fault} They are left out of a turn.`)
  return ''
}
