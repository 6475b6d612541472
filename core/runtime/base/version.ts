import pkg from '../../../package.json' with { type: 'json' }

/** The runtime's own version, as the boot line and `/health` show it. */
export const runtimeVersion: string = pkg.version
