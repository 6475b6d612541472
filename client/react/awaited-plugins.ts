import { OracleError } from '../core/error.ts'

/** The error of everything that needs a plugin which oracles do not have yet. */
export function pluginNotAvailable(plugin: string, purpose: string): OracleError {
  return new OracleError(
    'plugin_not_available',
    `${purpose} needs the "${plugin}" plugin, which is not available.`,
  )
}
