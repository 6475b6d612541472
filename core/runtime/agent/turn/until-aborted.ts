/**
 * Waits for work, but not beyond the moment its signal fires: then it rejects with the signal's reason, and
 * what the work comes to later is nobody's business.
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
