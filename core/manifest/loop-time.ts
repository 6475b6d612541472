/** How long work on one input may keep the event loop from other requests, in milliseconds. */
const budgetMs = 15
/** How many courtesies of a turn run however long they take, so that no caller misses a hint because the machine is slow. */
const alwaysDone = 20

/** The work since the event loop last turned; undefined until a caller asks. All callers share one loop, so they share this. */
let turn: { readonly since: number; courtesies: number; courtesyMs: number } | undefined

function thisTurn(): NonNullable<typeof turn> {
  if (turn) return turn
  turn = { since: performance.now(), courtesies: 0, courtesyMs: 0 }
  setImmediate(() => (turn = undefined))
  return turn
}

/**
 * Lets other requests run during a loop over input: write `await giveWay()` between two items. While there is time the call
 * costs next to nothing. Once the budget is spent the call waits until the event loop has turned.
 */
export function giveWay(): Promise<void> | undefined {
  const { since } = thisTurn()
  if (performance.now() - since <= budgetMs) return undefined
  return new Promise((resolve) => setImmediate(resolve))
}

/** Does work that can be left out, such as a suggestion. Once such work has spent the budget of this turn, it returns undefined. */
export function asCourtesy<T>(work: () => T): T | undefined {
  const done = thisTurn()
  if (++done.courtesies > alwaysDone && done.courtesyMs > budgetMs) return undefined
  const start = performance.now()
  try {
    return work()
  } finally {
    done.courtesyMs += performance.now() - start
  }
}
