import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client'
import type { Way } from '../config/config.ts'

/** How much of what a child says of itself is kept, from the end. */
const keptErrors = 4_096
/** How long one message may be. A child that sends more without an end of line is ended. */
const longestLine = 10 * 1024 * 1024
/** How long a child may take to end by itself, once for the end of its input and once for SIGTERM. */
const patienceMs = 1_000
/** A shorter value stands in many words, and is no secret worth the name. */
const shortestSecret = 6
/** The variables that a child has beside its own: nothing of this server's, whose keys stand in its environment. */
const inherited = ['PATH', 'HOME', 'LANG', 'TMPDIR', 'SYSTEMROOT'] as const

/** What became of a child process. */
export interface ChildEnd {
  readonly code: number | null
  readonly signal: string | null
  /** Why the child did not even start. */
  readonly fault?: NodeJS.ErrnoException
}

/**
 * A child process that speaks MCP by lines on its standard streams. It is started without a shell. The package has such a
 * transport, too; it starts every server twice, and says neither how a child ended nor what it wrote last.
 */
export class Child implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: (message: JSONRPCMessage) => void
  /** How the child ended; undefined while it runs. */
  end: ChildEnd | undefined
  /** Set when the child sent something that is no message. */
  garbage: string | undefined
  readonly #way: Extract<Way, { kind: 'stdio' }>
  /** Whether this side has asked the child to end. */
  #isAsked = false
  #process: ChildProcessWithoutNullStreams | undefined
  #errors = ''
  #pieces: Buffer[] = []
  #length = 0

  constructor(way: Extract<Way, { kind: 'stdio' }>) {
    this.#way = way
  }

  /** By these two the package knows that a child process is behind the transport. */
  get stderr(): null {
    return null
  }
  get pid(): number | null {
    return this.#process?.pid ?? null
  }

  /** Whether the child ended without being asked to. */
  get endedByItself(): boolean {
    return this.end !== undefined && !this.#isAsked
  }

  /** The last lines that the child wrote about itself, without what stands in its variables. */
  get errors(): string {
    let text = this.#errors
    for (const value of Object.values(this.#way.env))
      if (value.length >= shortestSecret) text = text.replaceAll(value, '[secret]')
    return text
  }

  start(): Promise<void> {
    const { command, args, env, cwd } = this.#way
    const own = inherited.flatMap((name) => {
      const value = process.env[name]
      return value === undefined ? [] : [[name, value] as const]
    })
    return new Promise((resolve, reject) => {
      const child = spawn(command, [...args], {
        env: { ...Object.fromEntries(own), ...env },
        cwd,
        shell: false,
        windowsHide: true,
        detached: process.platform !== 'win32', // a group of its own: what npx starts ends with it
      })
      this.#process = child
      child.on('spawn', resolve)
      child.on('error', (fault: NodeJS.ErrnoException) => {
        this.end ??= { code: null, signal: null, fault }
        reject(fault)
      })
      child.on('close', (code, signal) => {
        this.end ??= { code, signal }
        this.onclose?.()
      })
      child.stdin.on('error', () => undefined) // the child is gone, and `close` says so
      child.stdout.on('data', (bytes: Buffer) => this.#read(bytes))
      child.stderr.on('data', (bytes: Buffer) => {
        this.#errors = (this.#errors + bytes.toString('utf8')).slice(-keptErrors)
      })
    })
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const child = this.#process
    if (!child?.stdin.writable) throw new Error('The server has ended.')
    const fault = await new Promise((resolve) =>
      child.stdin.write(`${JSON.stringify(message)}\n`, (error) => resolve(error)),
    )
    if (!fault) return
    // A child that is gone takes nothing more; how it ended is known a moment later, and says more.
    await this.#ends(child)
    throw new Error('The server has ended.')
  }

  /** Ends the child: by the end of its input, then by SIGTERM, then by SIGKILL. */
  async close(): Promise<void> {
    const child = this.#process
    if (!child || this.end) return
    this.#isAsked = true
    child.stdin.end()
    if (await this.#ends(child)) return
    this.#kill(child, 'SIGTERM')
    if (await this.#ends(child)) return
    this.#kill(child, 'SIGKILL')
    await this.#ends(child)
  }

  #ends(child: ChildProcessWithoutNullStreams): Promise<boolean> {
    if (this.end) return Promise.resolve(true)
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const timer = setTimeout(() => resolve(false), patienceMs)
    child.once('close', () => resolve(true))
    return promise.finally(() => clearTimeout(timer))
  }

  #kill(child: ChildProcessWithoutNullStreams, signal: NodeJS.Signals): void {
    try {
      if (child.pid !== undefined && process.platform !== 'win32') process.kill(-child.pid, signal)
      else child.kill(signal)
    } catch {
      child.kill(signal) // the group is gone already
    }
  }

  #read(bytes: Buffer): void {
    let from = 0
    for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, from)) {
      this.#pieces.push(bytes.subarray(from, at))
      from = at + 1
      const line = Buffer.concat(this.#pieces).toString('utf8').trim()
      this.#pieces = []
      this.#length = 0
      if (line !== '') this.#take(line)
    }
    const rest = bytes.subarray(from)
    if (rest.length === 0) return
    this.#pieces.push(rest)
    this.#length += rest.length
    if (this.#length <= longestLine) return
    this.#pieces = []
    this.#length = 0
    this.garbage = 'more than 10 MiB without an end of line'
    void this.close()
  }

  #take(line: string): void {
    let message: unknown
    try {
      message = JSON.parse(line)
    } catch {
      message = undefined
    }
    if (isMessage(message)) this.onmessage?.(message)
    else {
      this.garbage ??= JSON.stringify(line.slice(0, 80))
      this.onerror?.(new Error('A line of the server is no message.'))
    }
  }
}

/** A message by its form. What is in it, the package checks. */
const isMessage = (value: unknown): value is JSONRPCMessage =>
  typeof value === 'object' && value !== null && 'jsonrpc' in value && value.jsonrpc === '2.0'
