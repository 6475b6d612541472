import { RuntimeError } from '../../errors.ts'
import { gateOf, type PluginRecord } from '../base/plugin-record.ts'

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
