import { RuntimeError } from '../../../errors.ts'
import type { Calling } from './tool-call.ts'

/** How long a tool may take to end after its signal has fired. */
const graceMs = 1000

/**
 * Runs the tool of a call, which may take `timeoutMs`. After that the signal of the call fires, and a second later the
 * call ends with TOOL_TIMEOUT, whether the tool has ended or not. A result that comes within that second counts. `faultOf`
 * says it in other words, for what is no run of the tool.
 */
export async function inTime<T>(
  calling: Calling,
  timeoutMs: number,
  run: (signal: AbortSignal) => Promise<T>,
  faultOf = timedOut,
): Promise<T> {
  const { signal: ofTurn } = calling.turn
  const controller = new AbortController()
  const follow = () => controller.abort(ofTurn.reason)
  if (ofTurn.aborted) follow()
  else ofTurn.addEventListener('abort', follow, { once: true })
  const { promise: late, reject } = Promise.withResolvers<never>()
  let fault: RuntimeError | undefined
  let timer = setTimeout(() => {
    fault = faultOf(calling, timeoutMs)
    timer = setTimeout(reject, graceMs, fault)
    controller.abort(fault)
  }, timeoutMs)
  try {
    return await Promise.race([run(controller.signal), late])
  } catch (thrown) {
    throw fault && !ofTurn.aborted ? fault : thrown
  } finally {
    clearTimeout(timer)
    ofTurn.removeEventListener('abort', follow)
  }
}

/** The fault of a call whose `approve` did not say in time whether a person is asked: then the tool does not run. */
export function undecided({ call }: Calling, timeoutMs: number): RuntimeError {
  const time = timeoutMs.toLocaleString('en')
  return new RuntimeError(
    'TOOL_TIMEOUT',
    `"${call.name}" was not run: within ${time} ms it was not settled whether a person has to approve it.`,
    { hint: 'Nothing has happened. You may call it again, or tell the user.' },
  )
}

function timedOut({ call, entry }: Calling, timeoutMs: number): RuntimeError {
  const message = `"${call.name}" did not end within ${timeoutMs.toLocaleString('en')} ms`
  const { whenLate: hint } = entry
  if (hint !== undefined) return new RuntimeError('TOOL_TIMEOUT', `${message}.`, { hint })
  return entry.effect === 'read'
    ? new RuntimeError('TOOL_TIMEOUT', `${message}.`, {
        hint: 'It only reads: you may call it again, or ask for less at once.',
      })
    : new RuntimeError(
        'TOOL_TIMEOUT',
        `${message}, outcome unknown: it may have happened or not.`,
        { hint: 'Do not repeat the call. Find out with a reading tool, or tell the user.' },
      )
}
