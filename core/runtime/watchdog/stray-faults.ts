import type { Log } from '../../plugin.ts'

/** The logs of the apps that run in this process. The newest gets every stray fault, because a fault does not tell its app. */
const logs: Log[] = []

/**
 * Logs promises that reject while nobody waits for them, and lets the process live, until the returned function is called.
 * When the program has a handler of its own for such rejections, that handler decides and nothing is logged here. An
 * uncaught exception is logged and ends the process, as Node does, because it may have left work half done. The process then
 * does not hand its runs over: the process that takes them over has to see that this one died in the middle of them.
 */
export function surviveStrayRejections(log: Log): () => void {
  if (logs.length === 0) {
    if (process.listenerCount('unhandledRejection') > 0) return () => undefined
    process.on('unhandledRejection', logRejection)
    process.on('uncaughtExceptionMonitor', logException)
  }
  logs.push(log)
  return () => {
    const index = logs.indexOf(log)
    if (index < 0) return
    logs.splice(index, 1)
    if (logs.length > 0) return
    process.off('unhandledRejection', logRejection)
    process.off('uncaughtExceptionMonitor', logException)
  }
}

/** Keeps the variables of the process, which hold keys, out of the reports that Node writes of it: when it dies, or on a signal. */
export function sealReports(): void {
  process.report.excludeEnv = true
}

function logRejection(reason: unknown): void {
  logs
    .at(-1)
    ?.error(
      { err: asError(reason), ...pluginOf(reason) },
      'A promise was rejected and nobody waits for it; the server goes on',
    )
}

function logException(error: unknown): void {
  logs
    .at(-1)
    ?.error(
      { err: asError(error), ...pluginOf(error) },
      'Nobody caught an exception: the process ends',
    )
}

const asError = (thrown: unknown) => (thrown instanceof Error ? thrown : new Error(String(thrown)))

/** The plugin in whose folder, `plugins/<name>`, the error was thrown, as the stack tells; empty for other places. */
function pluginOf(thrown: unknown): { plugin?: string } {
  const plugin = /[\\/]plugins[\\/]([a-z0-9-]+)(?:[\\/]|\.[jt]s)/.exec(
    thrown instanceof Error ? (thrown.stack ?? '') : '',
  )?.[1]
  return plugin === undefined ? {} : { plugin }
}
