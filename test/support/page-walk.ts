import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import type { Block } from './pages.ts'

const root = resolve(import.meta.dirname, '../..')
/** Folders that a clone does not have, or that take long to copy. */
const left = new Set(['node_modules', '.git', '.data', 'dist', '.ci'])

/** Folders that other tests and builds make and remove meanwhile; a clone does not have them either. */
const passing = /^\.(?:docs|scaffold|types)-|^built(?:-\d+)?$/

/** Matches a line that starts a program which goes on until somebody ends it. */
const starts =
  /^(?:npm ci && )?(?:[A-Z_]+=\S+ )*(?:npm (?:start|run example:(?:ledger|payments))|npx node --conditions=\S+ \S+\/server\.ts)$/
/** Matches a comment by which a page says that the next line is answered with an error. */
const refused = /\b4\d\d\b|\brefused\b/

/**
 * A reader who goes through a page: one fresh clone, one shell, and the servers that the page starts, one at a time on
 * a port of their own. What the clone installs is there already.
 */
export class PageWalk {
  readonly folder: string
  readonly #port: number
  readonly #env: Readonly<Record<string, string | undefined>>
  #server: Running | undefined
  #upstream: Running | undefined

  private constructor(folder: string, port: number, env: Readonly<Record<string, string>>) {
    this.folder = folder
    this.#port = port
    this.#env = {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      PORT: String(port),
      LEDGER_PORT: '0',
      FORCE_COLOR: '0',
      ...env,
    }
  }

  /** Makes the clone. `env` points at the stand-ins for servers of others. */
  static async begin(env: Readonly<Record<string, string>>): Promise<PageWalk> {
    const folder = mkdtempSync(join(tmpdir(), 'page-'))
    for (const name of ['clone', 'tmp']) mkdirSync(join(folder, name))
    cpSync(root, join(folder, 'clone'), {
      recursive: true,
      filter: (path) =>
        !relative(root, path)
          .split('/')
          .some((part) => left.has(part) || passing.test(part)),
    })
    symlinkSync(join(root, 'node_modules'), join(folder, 'clone/node_modules'))
    return new PageWalk(folder, await freePort(), env)
  }

  /** Does what a block says. Throws with all that was printed when a line of it fails. */
  async run({ code, mark }: Block): Promise<string> {
    let printed = ''
    let lines: string[] = []
    const soFar = async () => {
      if (lines.length > 0)
        printed += await this.#shell(lines.join('\n'), /^server: (.*)/.exec(mark ?? '')?.[1])
      lines = []
    }
    for (const line of this.#local(code).split('\n'))
      if (starts.test(line)) {
        await soFar()
        await this.#start(line)
      } else lines.push(line)
    await soFar()
    return printed
  }

  /** Writes a file that the page spells out. */
  write(path: string, code: string): void {
    mkdirSync(dirname(join(this.folder, 'clone', path)), { recursive: true })
    writeFileSync(join(this.folder, 'clone', path), code)
  }

  async end(): Promise<void> {
    await this.#server?.end()
    await this.#upstream?.end()
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** Commands for the port and the temporary folder of this walk. */
  #local(code: string): string {
    return code
      .replaceAll(/(127\.0\.0\.1|localhost):3000/g, `127.0.0.1:${this.#port}`)
      .replaceAll('/tmp/', `${this.folder}/tmp/`)
  }

  async #shell(commands: string, server = ''): Promise<string> {
    const asks = /\bcurl\b|npm run (-s )?(chat|token|ussd|grant)/.test(commands)
    // A page that starts no server means the server of the page before.
    if (server !== '' || (asks && !this.#server)) await this.#start(`${server} npm start`.trim())
    const script = [
      'set -eo pipefail',
      `cd ${this.folder}/clone`,
      'curl() { command curl --fail-with-body "$@"; }',
      `[ ! -f ../variables ] || . ../variables`,
      ...withRefusals(commands),
      'declare -p | grep -E "^declare (-x|--) [A-Z]+=" | grep -vE " ' +
        '(PATH|HOME|PWD|OLDPWD|SHLVL|PORT|PPID|UID|EUID|IFS|OPTIND)=" > ../variables || true',
      'declare -f | sed "/^curl ()/,/^}/d" >> ../variables',
    ].join('\n')
    const options = { env: this.#env as NodeJS.ProcessEnv, timeout: 120_000 }
    const { status, printed } = await new Promise<{ status: unknown; printed: string }>(
      (resolve) => {
        const child = execFile('bash', ['-c', script], options, (error, stdout, stderr) =>
          resolve({ status: error?.code ?? error?.signal, printed: stdout + stderr }),
        )
        child.stdin?.end()
      },
    )
    if (status !== undefined)
      throw new Error(
        `It ended with ${status}:\n${commands}\n${printed}\n${this.#server?.output() ?? ''}`,
      )
    return printed
  }

  /** Runs a line that starts a program, and waits until the program is there. A ledger stays beside the server that asks it. */
  async #start(line: string): Promise<void> {
    const command = line.replace('npm ci && ', '')
    if (command.includes('example:ledger')) {
      this.#upstream = new Running(command, join(this.folder, 'clone'), this.#env)
      await this.#upstream.says(/npm start/)
      return
    }
    await this.#server?.end()
    const variables = this.#upstream?.output().match(/GATEWAY_\w+=\S+/g) ?? []
    this.#server = new Running(
      `${variables.join(' ')} ${command}`,
      join(this.folder, 'clone'),
      this.#env,
    )
    await this.#server.says(/listening on/)
    if (variables.length > 0)
      await this.#server.says(/query-gateway (available|pending -> available)/)
  }
}

/** A command that goes on, with all its children. */
class Running {
  readonly #child: ChildProcess
  readonly #exited: Promise<void>
  #printed = ''

  constructor(command: string, cwd: string, env: Readonly<Record<string, string | undefined>>) {
    this.#child = spawn('bash', ['-c', command], {
      cwd,
      env: env as NodeJS.ProcessEnv,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true, // a process group, so that all children end together
    })
    this.#exited = new Promise((resolve) => this.#child.once('close', () => resolve()))
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.on('data', (chunk: Buffer) => (this.#printed += chunk))
  }

  output(): string {
    return this.#printed
  }

  /** Resolves when the command has printed what matches. */
  async says(words: RegExp): Promise<void> {
    for (let tries = 0; !words.test(this.#printed); tries++) {
      if (tries > 1200 || this.#child.exitCode !== null)
        throw new Error(`The command did not print ${words}:\n${this.#printed}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }

  async end(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.pid !== undefined)
      process.kill(-this.#child.pid, 'SIGTERM')
    await this.#exited
  }
}

/** The same commands, with leave to fail for those that are to be refused. A command ends where its quotes and backslashes do. */
function withRefusals(commands: string): string[] {
  let expected = false
  let command = ''
  return commands.split('\n').map((line) => {
    if (command === '' && line.startsWith('#')) expected = refused.test(line)
    command += line
    if (!line.startsWith('#') && goesOn(command)) return line
    const isRefused = expected && command.startsWith('curl ')
    command = ''
    return isRefused ? `${line} || [ $? = 22 ]; echo` : line
  })
}

const goesOn = (command: string): boolean =>
  command.endsWith('\\') || command.split("'").length % 2 === 0

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
