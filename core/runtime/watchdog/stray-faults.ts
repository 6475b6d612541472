import type { Log } from '../../plugin.ts'

/** The apps of this process that are up; the newest logs, for there is no telling whose promise it was. */
const logs: Log[] = []

/**
 * Logs promises that reject where nobody waits, and lets the process live, until what this returns is called. A
 * program that has a handler of its own keeps deciding for itself: then nothing is done here. An exception that
 * nobody caught is logged, and ends the process as Node does, for nobody knows what it left half done. The runs are
 * not handed over then: whoever takes them over has to know that they were there when the process died.
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
      'An exception was caught by nobody: the process ends',
    )
}

const asError = (thrown: unknown) => (thrown instanceof Error ? thrown : new Error(String(thrown)))

/** Plugins live in folders of their names, below one for all: known where it threw there. */
function pluginOf(thrown: unknown): { plugin?: string } {
  const plugin = /[\\/]plugins[\\/]([a-z0-9-]+)(?:[\\/]|\.[jt]s)/.exec(
    thrown instanceof Error ? (thrown.stack ?? '') : '',
  )?.[1]
  return plugin === undefined ? {} : { plugin }
}
