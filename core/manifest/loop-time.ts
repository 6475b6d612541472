/** How long work on one input may keep the event loop from other requests, in milliseconds. */
const budgetMs = 15
/** So many courtesies are done whatever they take, so that a slow moment of the machine costs no caller a hint. */
const alwaysDone = 20

/** The work since the event loop last turned; undefined until a caller asks. All callers share it, as they share the loop. */
let turn: { readonly since: number; courtesies: number; courtesyMs: number } | undefined

function thisTurn(): NonNullable<typeof turn> {
  if (turn) return turn
  turn = { since: performance.now(), courtesies: 0, courtesyMs: 0 }
  setImmediate(() => (turn = undefined))
  return turn
}

/**
 * For a loop over input: `await giveWay()` between two items. The call costs next to nothing while there is time; once
 * the budget is spent it waits until the event loop has turned, so that other requests are served.
 */
export function giveWay(): Promise<void> | undefined {
  const { since } = thisTurn()
  if (performance.now() - since <= budgetMs) return undefined
  return new Promise((resolve) => setImmediate(resolve))
}

/** Does work that can be left out, such as a suggestion; undefined once such work has spent the budget of this turn. */
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
