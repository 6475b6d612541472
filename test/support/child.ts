import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { fromSources } from './process.ts'

/** A real process that runs a script of `test/support` and prints lines. */
export interface Child {
  readonly process: ChildProcess
  /** What the process has printed so far. */
  readonly lines: string[]
  /** Resolves when the process has printed so many lines, rejects when it ends before. */
  printed(count: number): Promise<string[]>
  kill(signal: NodeJS.Signals): Promise<void>
  /** Resolves to the exit code once everything that the process printed is in `lines`. */
  ended(): Promise<number | null>
}

const started = new Set<ChildProcess>()

/** Ends the processes that a test which failed may have left. */
export function killChildren(): void {
  for (const child of started) child.kill('SIGKILL')
}

/** Starts a script of `test/support` in a process of its own. */
export function startChild(script: string, args: readonly string[]): Child {
  const path = fileURLToPath(new URL(script, import.meta.url))
  const child = spawn(process.execPath, [...fromSources, '--expose-gc', path, ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  started.add(child)
  // A process that died does not hear what it is told.
  child.stdin.on('error', () => undefined)
  const lines: string[] = []
  let complaint = ''
  child.stderr.setEncoding('utf8').on('data', (text) => (complaint += text))
  const output = createInterface({ input: child.stdout })
  output.on('line', (line) => lines.push(line))
  const closed = once(child, 'close').then(([code]) => {
    started.delete(child)
    return code as number | null
  })
  return {
    process: child,
    lines,
    async printed(count) {
      while (lines.length < count) {
        const ended = await Promise.race([
          once(output, 'line'),
          closed.then(() => 'ended' as const),
        ])
        if (ended === 'ended' && lines.length < count)
          throw new Error(`${script} ended after ${lines.length} lines: ${complaint}`)
      }
      return lines
    },
    async kill(signal) {
      child.kill(signal)
      await closed
    },
    async ended() {
      const code = await closed
      if (complaint) throw new Error(`${script} complained: ${complaint}`)
      return code
    },
  }
}
