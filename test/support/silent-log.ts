import type { Log } from '../../core/plugin.ts'

/** A log for tests that look elsewhere. */
export const silent: Log = { debug() {}, info() {}, warn() {}, error() {} }
