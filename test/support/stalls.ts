/** For how long the event loop of a process stood still at most, by the clock and by its own work. */
export interface Stalls {
  /** By the clock: also while other processes had the processor. */
  readonly clockMs: number
  /** By the processor time of the thread: what the process itself did without a pause. */
  readonly ownMs: number
}

const lookMs = 1

/** Watches the event loop until the work is done. */
export async function stallsDuring(work: () => Promise<unknown>): Promise<Stalls> {
  let [clockMs, ownMs] = [0, 0]
  const cpu = () => {
    const { user, system } = process.threadCpuUsage()
    return (user + system) / 1000
  }
  let [at, spent] = [performance.now(), cpu()]
  const look = () => {
    const [now, own] = [performance.now(), cpu()]
    clockMs = Math.max(clockMs, now - at - lookMs)
    ownMs = Math.max(ownMs, own - spent)
    ;[at, spent] = [now, own]
  }
  const timer = setInterval(look, lookMs)
  try {
    await work()
  } finally {
    look()
    clearInterval(timer)
  }
  return { clockMs, ownMs }
}

/** The same in words. */
export const toldStalls = ({ clockMs, ownMs }: Stalls): string =>
  `the event loop stood still for at most ${clockMs.toFixed(1)} ms by the clock, and ${ownMs.toFixed(1)} ms by the work of its thread`

/** Computes for as long, in turns so short that nobody would notice: what a busy machine does to anybody. */
export async function computeFor(ms: number): Promise<void> {
  const end = performance.now() + ms
  while (performance.now() < end) {
    const pause = performance.now() + 2
    while (performance.now() < pause);
    await new Promise((resolve) => setImmediate(resolve))
  }
}
