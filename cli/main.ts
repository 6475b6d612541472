import { existsSync } from 'node:fs'
import module, { enableCompileCache } from 'node:module'
import { join } from 'node:path'

// The command line, in the checkout as in an installed package.
enableCompileCache()
quietSqlite()
if (existsSync(join(import.meta.dirname, '../core/plugin.ts'))) readSources()
const { runCommand } = await import('./run-command.ts')
const code = await runCommand(process.argv.slice(2))
// A server that listens keeps its process; anything else that is left open must not.
if (code !== undefined && process.argv[2] !== 'start') {
  await Promise.all([flushed(process.stdout), flushed(process.stderr)])
  process.exit(code)
} else process.exitCode = code

/** Resolves once everything that was printed has left: a reader that is slower than the command would lose the end of it. */
function flushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => stream.write('', () => resolve()))
}

/** In the checkout nothing is built: the name of the package leads to its sources. */
function readSources(): void {
  const condition = 'oracle-runtime-source'
  if (process.execArgv.includes(`--conditions=${condition}`)) return
  module.registerHooks({
    resolve: (specifier, context, next) =>
      next(specifier, { ...context, conditions: [...context.conditions, condition] }),
  })
}

/** What Node says of its SQLite concerns authors of this package, and would stand above the answer of every command. */
function quietSqlite(): void {
  const emit = process.emitWarning.bind(process)
  process.emitWarning = ((warning: string | Error, ...rest: never[]) => {
    if (!String(warning).startsWith('SQLite is an experimental')) emit(warning, ...rest)
  }) as typeof process.emitWarning // one signature for its overloads
}
