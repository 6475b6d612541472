import type { RunMoment } from '../../core/runtime/turns/carry/carried-run.ts'

/**
 * Ends this process with SIGKILL when a run comes to a moment for the `nth` time: the process flushes nothing and
 * tells nobody, as when the machine loses power. For `new Runs({ at })`.
 */
export function dieAt(moment: RunMoment, nth = 1): (moment: RunMoment) => void {
  let left = nth
  return (now) => {
    if (now === moment && --left === 0) process.kill(process.pid, 'SIGKILL')
  }
}
