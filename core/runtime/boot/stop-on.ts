import type { Log } from '../../plugin.ts'
import { RuntimeError } from '../../errors.ts'

/** Logs every fault and throws them as one `BOOT_FAILED`; does nothing where there is none. */
export function stopOn(faults: readonly RuntimeError[], log: Log): void {
  if (faults.length === 0) return
  const lines = faults.map(
    ({ code, message, hint }) => `${message}${hint ? ` ${hint}` : ''} (${code})`,
  )
  for (const line of lines) log.error(line)
  const count = faults.length === 1 ? 'a fault' : `${faults.length} faults`
  const list = lines.map((line) => `  - ${line}`).join('\n')
  throw new RuntimeError('BOOT_FAILED', `The boot found ${count}:\n${list}`, {
    details: {
      faults: faults.map(({ code, message, hint, details }) => ({ code, message, hint, details })),
    },
  })
}
