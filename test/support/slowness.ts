import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** Computes for a fifth of a second, and tells how many times as long that took by the clock. */
const program = `
const spent = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1000 }
const [began, before] = [performance.now(), spent()]
while (spent() - before < 200);
console.log((performance.now() - began) / (spent() - before))`

/** How many times as long as on a machine that does nothing else a process takes here and now: 1 or more. */
export async function slowness(): Promise<number> {
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', program])
  return Math.max(1, Number(stdout))
}
