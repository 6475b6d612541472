/** Takes short synchronous jobs one after the other and lets the server breathe between them. */
export interface Lane {
  /** Runs at once when there is time left, else as soon as there is. */
  run<T>(job: () => T): Promise<T>
  /** Jobs that wait for their turn. */
  readonly waiting: number
}

/**
 * A lane that works for at most `budgetMs` before everything else in the process gets a turn. A
 * thousand signatures that arrive together then cost the others a few milliseconds, not a tenth of
 * a second in one piece.
 */
export function createLane(budgetMs = 4): Lane {
  const queue: (() => void)[] = []
  let sliceEnds = 0
  let pumping = false

  function pump() {
    sliceEnds = performance.now() + budgetMs
    while (queue.length > 0 && performance.now() < sliceEnds) queue.shift()!()
    pumping = queue.length > 0
    if (pumping) setImmediate(pump)
  }

  return {
    run(job) {
      return new Promise((resolve, reject) => {
        queue.push(() => {
          try {
            resolve(job())
          } catch (error) {
            reject(error)
          }
        })
        if (!pumping) {
          pumping = true
          setImmediate(pump)
        }
      })
    },
    get waiting() {
      return queue.length
    },
  }
}
