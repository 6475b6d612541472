import type { ParseArgsOptionsConfig } from 'node:util'

/** The words of a command line after the name of the command, as its options and positionals. */
export interface Words {
  readonly positionals: readonly string[]
  /** A text option that was given, or undefined. */
  text(name: string): string | undefined
  /** Whether an option without a value was given. */
  has(name: string): boolean
}

/** A command of the command line. */
export interface Command {
  /** What stands after `oracle-runtime`, such as `probe [--wait 60] [url]`. */
  readonly usage: string
  /** A whole line that somebody may type. */
  readonly example: string
  /** More for `--help`, where a sentence is not enough. */
  readonly notes?: string
  readonly options?: ParseArgsOptionsConfig
  /** How many words may stand beside the options; by default none. */
  readonly mostPositionals?: number
  /** Resolves to the exit code; nothing means 0. */
  run(words: Words): Promise<number | void>
}

/** The command line is wrong: exit code 2. */
export class UsageError extends Error {}
