import { RuntimeError } from '../../errors.ts'
import { gateOf, type PluginRecord } from '../base/plugin-record.ts'

/**
 * The answer at an address that nobody serves, while a plugin whose routes or web modules its setup has yet to make may come
 * to serve it: a client that reads 404 takes it that there is no such thing.
 */
export function pendingIn(records: readonly PluginRecord[]): RuntimeError | undefined {
  const record = records.find(
    ({ base, state, definition: { routes, web } }) =>
      !base && state === 'pending' && (typeof routes === 'function' || typeof web === 'function'),
  )
  return record && refusalOf(record)
}

/** The answer of a plugin's routes and web modules while the plugin serves nothing; undefined when the plugin serves. */
export function refusalOf(record: PluginRecord): RuntimeError | undefined {
  const gate = gateOf(record)
  if (gate === undefined) return undefined
  const { isFailed, why: hint } = gate
  return isFailed
    ? new RuntimeError('PLUGIN_FAILED', `${record.name} could not start.`, { hint })
    : new RuntimeError('PLUGIN_PENDING', `${record.name} is not ready yet.`, {
        hint,
        headers: { 'Retry-After': '2' },
      })
}
