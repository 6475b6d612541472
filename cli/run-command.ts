import { parseArgs } from 'node:util'
import { didYouMean } from '../core/manifest/did-you-mean.ts'
import { RuntimeError } from '../core/errors.ts'
import { runtimeVersion } from '../core/runtime/base/version.ts'
import { type Command, UsageError, type Words } from './command.ts'
import { commands } from './commands.ts'

/** Runs a command line and resolves to its exit code: 0, 1 for a fault, 2 for a command line that is wrong. */
export async function runCommand([name, ...rest]: readonly string[]): Promise<number> {
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') {
    console.log(overview())
    return name === undefined ? 2 : 0
  }
  if (name === '--version' || name === '-v') {
    console.log(runtimeVersion)
    return 0
  }
  try {
    if (!Object.hasOwn(commands, name)) throw new UsageError(unknown(name))
    const { command } = await commands[name]!.load()
    if (rest.includes('--help') || rest.includes('-h')) {
      console.log(help(command, commands[name]!.summary))
      return 0
    }
    return (await command.run(readWords(command, rest))) ?? 0
  } catch (error) {
    return told(error)
  }
}

function overview(): string {
  const names = Object.keys(commands)
  const width = Math.max(...names.map((name) => name.length))
  const lines = names.map((name) => `  ${name.padEnd(width)}  ${commands[name]!.summary}`)
  return (
    `oracle-runtime ${runtimeVersion}\n\n${lines.join('\n')}\n\n` +
    'oracle-runtime <command> --help shows what a command takes, with an example.'
  )
}

function help({ usage, example, notes }: Command, summary: string): string {
  const more = notes === undefined ? '' : `\n${notes}\n`
  return `oracle-runtime ${usage}\n\n  ${summary}\n${more}\nExample:\n\n  ${example}`
}

function unknown(name: string): string {
  const shown = name.slice(0, 40)
  const near = didYouMean(name, Object.keys(commands))
  const next = near === undefined ? 'oracle-runtime --help lists all' : `Did you mean "${near}"`
  return `There is no command "${shown}". ${next}${near === undefined ? '.' : '?'}`
}

function readWords({ options = {}, mostPositionals = 0, usage }: Command, rest: string[]): Words {
  const { values, positionals } = parsed(options, rest, usage)
  if (positionals.length > mostPositionals)
    throw new UsageError(
      `"${positionals[mostPositionals]?.slice(0, 60)}" is one word too many. Usage: oracle-runtime ${usage}`,
    )
  return {
    positionals,
    text(name) {
      const value = values[name]
      return typeof value === 'string' ? value : undefined
    },
    has: (name) => values[name] === true,
  }
}

function parsed(options: NonNullable<Command['options']>, args: string[], usage: string) {
  try {
    return parseArgs({ args, options, allowPositionals: true })
  } catch (error) {
    const [, given = ''] =
      args.map((word) => /^--([^=]+)/.exec(word)).find((found) => found && !options[found[1]!]) ??
      []
    const near = given && didYouMean(given, Object.keys(options))
    const meant = near ? ` Did you mean "--${near}"?` : ''
    const sentence = error instanceof Error ? error.message.replace(/\. To specify.*$/s, '') : ''
    throw new UsageError(`${sentence}.${meant} Usage: oracle-runtime ${usage}`)
  }
}

/** Prints an error as a person reads it, and gives its exit code. */
function told(error: unknown): number {
  if (error instanceof UsageError) {
    console.error(error.message)
    return 2
  }
  const sentence = error instanceof Error ? error.message : String(error)
  const hint = error instanceof RuntimeError ? error.hint : undefined
  console.error(hint ? `${sentence} ${hint}` : sentence)
  if (error instanceof RuntimeError) tellFaults(error.details)
  return 1
}

/** The message names only the first of several faults of an input; the others are listed. */
function tellFaults(details: unknown): void {
  if (!Array.isArray(details) || details.length < 2) return
  for (const fault of details as readonly unknown[])
    if (typeof fault === 'object' && fault !== null && 'path' in fault && 'message' in fault)
      console.error(`  ${String(fault.path)}: ${String(fault.message)}`)
}
