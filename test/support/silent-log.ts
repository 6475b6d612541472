import type { Log } from '../../core/plugin.ts'

/** A log that drops every line, for tests that do not look at the log. */
export const silent: Log = { debug() {}, info() {}, warn() {}, error() {} }
