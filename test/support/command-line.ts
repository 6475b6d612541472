import { spawn } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bareEnv, root } from './process.ts'

/** What a command printed, and how it ended. */
export interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

/** An app of a folder that runs in a process of its own. */
export interface Serving {
  readonly url: string
  readonly pid: number
  /** Resolves when the process has printed what matches. */
  said(words: RegExp): Promise<RegExpExecArray>
  printed(): string
  signal(name: NodeJS.Signals): void
  /** Ends the process, by SIGTERM unless another signal is given. */
  stop(name?: NodeJS.Signals): Promise<void>
}

/** A folder outside of the project with an app in it, as somebody has it who installed the package. */
export class AppFolder implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'oracle-cli-'))

  constructor(server?: string) {
    mkdirSync(join(this.path, 'node_modules'))
    symlinkSync(root, join(this.path, 'node_modules/oracle-runtime'))
    symlinkSync(join(root, 'node_modules/zod'), join(this.path, 'node_modules/zod'))
    this.write('package.json', '{ "type": "module" }')
    if (server !== undefined) this.write('server.ts', server)
  }

  /** Writes a file of the app. */
  write(file: string, text: string, mode = 0o600): string {
    const path = join(this.path, file)
    writeFileSync(path, text, { mode })
    return path
  }

  /** Runs `oracle-runtime` here to its end. The environment is only what is given, beside PATH and HOME. */
  run(words: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
    return runCommandLine(words, this.path, env)
  }

  /** Starts the app of this folder, by Node alone or by another command line, and waits until it listens. */
  async serve(
    env: Readonly<Record<string, string>> = {},
    [program, ...args]: readonly [string, ...string[]] = [
      process.execPath,
      '--conditions=oracle-runtime-source',
      'server.ts',
    ],
  ): Promise<Serving> {
    const child = spawn(program, args, {
      cwd: this.path,
      env: { ...bareEnv(), PORT: '0', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const exited = once(child, 'exit')
    const told = new EventEmitter()
    let printed = ''
    const take = (chunk: Buffer) => {
      printed += chunk
      told.emit('more')
    }
    child.stdout.on('data', take)
    child.stderr.on('data', take)
    const said = async (words: RegExp): Promise<RegExpExecArray> => {
      for (;;) {
        const found = words.exec(printed)
        if (found) return found
        const next = await Promise.race([once(told, 'more'), exited.then(() => 'ended' as const)])
        if (next === 'ended' && !words.test(printed)) throw new Error(`It ended: ${printed}`)
      }
    }
    const [, url = ''] = await said(/listening on (http:\/\/[\w.:]+) /)
    return {
      url,
      pid: child.pid ?? 0,
      said,
      printed: () => printed,
      signal: (name) => void child.kill(name),
      async stop(name = 'SIGTERM') {
        child.kill(name)
        await exited
      },
    }
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true })
  }
}

/** Runs `oracle-runtime` in a folder to its end. */
export async function runCommandLine(
  words: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const child = spawn(process.execPath, [join(root, 'cli/bin.js'), ...words], {
    cwd,
    env: { ...bareEnv(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [out, err] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, out, err }
}

/** An app of two files' worth: a plugin with a table, a variable, a route and a scheduled job. */
export const tidesServer = `import { defineApp, definePlugin } from 'oracle-runtime'
import { z } from 'zod'

const tides = definePlugin({
  name: 'tides',
  summary: 'Knows the tides.',
  env: {
    TIDES_KEY: z.string().optional().meta({ secret: true, description: 'Key of the tables' }),
    TIDES_PORT: z.string().default('Lamu').describe('Which port is told'),
  },
  migrations: {
    '001-tides': async (db) => {
      await db.schema.createTable('tides_seen').addColumn('port', 'text').execute()
    },
  },
  setup: ({ env }) => ({ port: env.TIDES_PORT, key: env.TIDES_KEY }),
  routes: {
    'GET /tides': { auth: 'public', run: (_, { self }) => ({ port: self.port, key: self.key }) },
    'GET /tides/guarded': { auth: 'bearer', run: () => ({ open: true }) },
  },
})
const app = defineApp({ plugins: [tides] })
export default app
if (import.meta.main) await app.listen()
`
