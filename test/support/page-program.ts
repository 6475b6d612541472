import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { bareEnv, root } from './process.ts'

/** The blocks of a page that a comment `<!-- mark: path -->` above them names, by path. */
export function markedBlocks(page: string, mark: string): Map<string, string> {
  const text = readFileSync(join(root, page), 'utf8')
  const pattern = new RegExp(`<!-- ${mark}: (.+?) -->\\n\\n\`\`\`\\w+\\n(.*?)\`\`\``, 'gs')
  return new Map([...text.matchAll(pattern)].map(([, path = '', code = '']) => [path, code]))
}

/** The shell block of a page that holds a text. */
export function shellBlock(page: string, holds: string): string {
  const text = readFileSync(join(root, page), 'utf8')
  const found = [...text.matchAll(/```sh\n(.*?)```/gs)].find(([, code]) => code?.includes(holds))
  if (!found?.[1]) throw new Error(`${page} has no shell block with ${holds}`)
  return found[1]
}

/** A server that a page's command starts. */
export interface PageProgram extends AsyncDisposable {
  /** Where the server listens. */
  readonly url: string
}

/**
 * Runs a command of a page as a shell does, but on a free port and without a folder for data, and waits until the
 * server listens. Everything that the command starts ends with it.
 */
export async function runProgram(command: string, cwd: string): Promise<PageProgram> {
  const child = spawn('bash', ['-c', command], {
    cwd,
    detached: true,
    env: { ...bareEnv(), PORT: '0', DATA_DIR: ':memory:' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let printed = ''
  const exited = once(child, 'exit')
  const url = await new Promise<string>((resolve, reject) => {
    const take = (chunk: Buffer) => {
      printed += chunk
      const at = /listening on (http:\/\/[\w.:]+) /.exec(printed)?.[1]
      if (at) resolve(at)
    }
    child.stdout.on('data', take)
    child.stderr.on('data', take)
    void exited.then(() => reject(new Error(`"${command}" ended:\n${printed}`)))
  })
  return {
    url,
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.pid === undefined) return
      process.kill(-child.pid, 'SIGTERM')
      await exited
    },
  }
}
