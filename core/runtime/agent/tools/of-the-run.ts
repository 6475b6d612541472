import type { Calling } from './tool-call.ts'

/** Does work of the run for a call. When the work fails, the run ends: the model must not read the failure as a result. */
export async function ofTheRun<T>(calling: Calling, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!calling.turn.signal.aborted) calling.fault = { error }
    throw error
  }
}
