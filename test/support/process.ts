import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'

/** What a process needs whose environment is otherwise a test's own; without the last it compiles everything by itself. */
export function bareEnv(): Record<string, string> {
  const { PATH = '', HOME = '', NODE_COMPILE_CACHE = '' } = process.env
  return { PATH, HOME, NODE_COMPILE_CACHE }
}

/** What Node is told that runs a script of the project from its sources, as quickly as `npm start` does. */
export const fromSources = [
  '--disable-warning=ExperimentalWarning',
  '--conditions=oracle-runtime-source',
  `--import=${resolve(import.meta.dirname, 'quick-imports.ts')}`,
]

/** The folder of the project. */
export const root = resolve(import.meta.dirname, '../..')

/** A server in a process of its own, for what only a real process can show. */
export interface ServerProcess {
  readonly child: ChildProcess
  readonly pid: number
  /** Everything that the server printed so far. */
  output(): string
  /** Where the server listens; rejects with the output if the server exits first. */
  readonly url: Promise<string>
  /** Ends the server with a signal and resolves to its exit code, or the signal's name. */
  end(signal?: NodeJS.Signals): Promise<number | NodeJS.Signals>
  readonly exited: Promise<number | NodeJS.Signals>
}

/** Starts a script of the project on a free port. The environment is only what is given, beside `bareEnv`. */
export function startServer(
  script: string,
  env: Record<string, string> = {},
  cwd = root,
  args: readonly string[] = [],
): ServerProcess {
  const child = spawn(process.execPath, [...fromSources, resolve(root, script), ...args], {
    cwd,
    env: { ...bareEnv(), PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let printed = ''
  const exited = once(child, 'exit').then(
    ([code, signal]) => (code ?? signal) as number | NodeJS.Signals,
  )
  const url = new Promise<string>((resolve, reject) => {
    const take = (chunk: Buffer) => {
      printed += chunk
      const at = /listening on (http:\/\/\S+)/.exec(printed)?.[1]
      if (at) resolve(at.replace(/["\\].*$/, ''))
    }
    child.stdout.on('data', take)
    child.stderr.on('data', take)
    void exited.then(() => reject(new Error(`the server exited:\n${printed}`)))
  })
  url.catch(() => undefined) // a test that only waits for the exit never looks at the promise
  return {
    child,
    pid: child.pid!,
    output: () => printed,
    url,
    exited,
    end(signal = 'SIGTERM') {
      child.kill(signal)
      return exited
    },
  }
}
