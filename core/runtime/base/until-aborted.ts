/**
 * Waits for work until its signal fires. When the signal fires first, the promise rejects with the signal's reason, and a
 * later result or rejection of the work is dropped.
 */
export function untilAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  if (signal.aborted) {
    work.catch(() => undefined)
    return Promise.reject(signal.reason)
  }
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
    const settled = () => signal.removeEventListener('abort', stop)
    work.then(
      (value) => (settled(), resolve(value)),
      (error: unknown) => (settled(), reject(error)),
    )
  })
}

/** What a caller waits for whose process counts as dead: nothing of such a caller goes on. */
export const forever = (): Promise<never> => new Promise(() => {})
