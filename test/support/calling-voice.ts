import { root } from './process.ts'

/** The command of a voice whose words can be counted. */
export const beeps = (...more: string[]): string =>
  JSON.stringify([process.execPath, `${root}/test/support/beeping-voice.ts`, ...more])
