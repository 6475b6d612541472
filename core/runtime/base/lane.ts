/** Takes short synchronous jobs in their order and lets the server breathe between them. */
export interface Lane {
  /** Runs the job at once while there is time, else as soon as its turn comes. */
  run<T>(job: () => T): Promise<T>
  /** Jobs that wait for their turn. */
  readonly waiting: number
}

/**
 * A lane that works for about `budgetMs` in each turn of the event loop. A thousand signatures that
 * arrive together then hold up the others for a few milliseconds at a time, not for a tenth of a
 * second in one piece.
 */
export function createLane(budgetMs = 4): Lane {
  const queue: (() => void)[] = []
  let spent = 0
  let turnAhead = false

  function nextTurn() {
    spent = 0
    do queue.shift()?.()
    while (queue.length > 0 && spent < budgetMs)
    turnAhead = spent > 0
    if (turnAhead) setImmediate(nextTurn)
  }

  function timed<T>(job: () => T): T {
    const start = performance.now()
    try {
      return job()
    } finally {
      spent += performance.now() - start
      if (!turnAhead) setImmediate(nextTurn)
      turnAhead = true
    }
  }

  return {
    async run(job) {
      if (queue.length === 0 && spent < budgetMs) return timed(job)
      return new Promise((resolve, reject) => {
        queue.push(() => {
          try {
            resolve(timed(job))
          } catch (error) {
            reject(error)
          }
        })
      })
    },
    get waiting() {
      return queue.length
    },
  }
}
