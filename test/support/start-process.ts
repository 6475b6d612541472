import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fromSources } from './process.ts'

/** A process that a test started. */
export interface Started {
  readonly process: ChildProcess
  /** Resolves when the process has printed what matches. */
  said(words: RegExp): Promise<RegExpExecArray>
  stop(): Promise<void>
}

/** Starts a script of this repository as `npm run` would, for a test that needs a whole process. */
export function startProcess(script: string, env: Readonly<Record<string, string>>): Started {
  const path = new URL(`../../${script}`, import.meta.url).pathname
  const child = fork(path, {
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    execArgv: fromSources,
    env: { ...process.env, ...env },
  })
  const exited = once(child, 'exit')
  let printed = ''
  const listeners = new Set<() => void>()
  const take = (chunk: Buffer) => {
    printed += chunk
    for (const listener of listeners) listener()
  }
  child.stdout!.on('data', take)
  child.stderr!.on('data', take)
  return {
    process: child,
    said(words) {
      return new Promise((resolve, reject) => {
        const look = () => {
          const found = words.exec(printed)
          if (found) resolve(found)
        }
        listeners.add(look)
        look()
        void exited.then(() => reject(new Error(`${script} ended: ${printed}`)))
      })
    },
    async stop() {
      child.kill('SIGTERM')
      await exited
    },
  }
}
