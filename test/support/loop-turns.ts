/** How often the event loop turned while work was done: the work held up others in one piece when it hardly did. */
export async function loopTurns(work: () => unknown): Promise<number> {
  let turns = 0
  let next: NodeJS.Immediate
  const turn = () => {
    turns++
    next = setImmediate(turn)
  }
  next = setImmediate(turn)
  try {
    await work()
  } finally {
    clearImmediate(next)
  }
  return turns
}
