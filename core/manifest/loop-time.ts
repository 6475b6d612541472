/** How long work on input may keep the event loop from everybody else, in milliseconds. */
const budgetMs = 15
/** So many courtesies are done whatever they take: a slow moment of the machine costs nobody a hint. */
const alwaysDone = 20

/** What was done since the event loop last turned; undefined until somebody asks. All share it, as all share the loop. */
let turn: { readonly since: number; courtesies: number; courtesyMs: number } | undefined

function thisTurn(): NonNullable<typeof turn> {
  if (turn) return turn
  turn = { since: performance.now(), courtesies: 0, courtesyMs: 0 }
  setImmediate(() => (turn = undefined))
  return turn
}

/**
 * For a loop over input: `await giveWay()` between two items. Costs next to nothing while there is time; once the
 * budget is spent it waits until the event loop has turned, so that everybody else is served.
 */
export function giveWay(): Promise<void> | undefined {
  const { since } = thisTurn()
  if (performance.now() - since <= budgetMs) return undefined
  return new Promise((resolve) => setImmediate(resolve))
}

/** Does what can be left out, a suggestion say; undefined once such things have spent the budget of this turn. */
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
