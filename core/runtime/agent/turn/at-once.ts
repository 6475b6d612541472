import type { PluginRecord } from '../../base/plugin-record.ts'

/**
 * Asks a hook of a plugin that has to answer at once. When the hook throws or returns a promise, the answer is undefined
 * and the log names the plugin. When that promise rejects later, the log has that as well.
 */
export function atOnce<T>(
  { name, base }: PluginRecord,
  hook: string,
  ask: () => T,
  requestId: string,
): T | undefined {
  const log = base?.log
  try {
    const answer = ask()
    if (!isPromise(answer)) return answer
    log?.error({ requestId }, `${hook} of ${name} is async, and it has to answer at once`)
    answer.then(undefined, (err: unknown) =>
      log?.error({ err, requestId }, `${hook} of ${name} failed`),
    )
  } catch (err) {
    log?.error({ err, requestId }, `${hook} of ${name} failed`)
  }
  return undefined
}

const isPromise = (value: unknown): value is PromiseLike<unknown> =>
  typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
