import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type FSWatcher, readdirSync, statSync, watch } from 'node:fs'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AnswerWatch } from './answer-watch.ts'

/** Saves within this time are one: an editor writes a file in several steps. */
const togetherMs = 20
/** How long a server that was told to end may take; one that ignores the signal is killed. */
const endMs = 3_000
/** How long a server may take until it listens before the terminal says that it does not. */
const patienceMs = 30_000
/** How many connections wait at most while a server starts, and how much of what it printed is shown when it cannot. */
const mostWaiting = 1_000
/** How much of an unanswered request is kept to be said again, and how long before that. */
const mostSaidAgain = 1024 * 1024
const againMs = 20
const shownLength = 4_000
/** How long a client that waits for nothing may be silent while no server has its connection. */
const idleMs = 60_000

/** How many folders are watched at most. */
const mostFolders = 1_000
/** What is watched: code, data of the app, and variables; nothing that a server writes itself, and no installed package. */
const isOfApp = (name: string): boolean =>
  /^\.env/.test(name) ||
  (!name.startsWith('.') && /\.(ts|js|mjs|cjs|json|txt|md|html|css)$/.test(name))
/** Folders whose files a server or a build writes: watching them would start the app anew for ever. */
const isWatched = (name: string): boolean =>
  !/^(\.|(node_modules|dist|built|prebuilt|data|coverage)$|built-)/.test(name)

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false // gone again
  }
}

/** What a server for development is made of. */
export interface DevOptions {
  readonly folder: string
  readonly port: number
  readonly print: (text: string) => void
}

/**
 * Holds the port, and has a server of the app behind it that a save replaces. While no server is there, connections wait;
 * when the app cannot start, they are told why.
 */
export class DevServer {
  readonly #options: DevOptions
  readonly #server: Server
  readonly #watchers = new Map<string, FSWatcher>()
  /** Where the app is found. */
  readonly url: string
  readonly #port: number
  /** The connections of clients that wait for nothing while no server has them. */
  readonly #idle = new Set<Socket>()
  readonly #waiting: { readonly socket: Socket; readonly said: Buffer[] }[] = []
  #child: ChildProcess | undefined
  /** Where the server of the app listens, once it does. */
  #target: number | undefined
  #fault: string | undefined
  #saved: NodeJS.Timeout | undefined
  #changing: Promise<void> | undefined
  #again = false
  #isClosed = false

  private constructor(options: DevOptions, server: Server) {
    this.#options = options
    this.#server = server
    this.#port = (server.address() as AddressInfo).port
    this.url = `http://127.0.0.1:${this.#port}`
    server.on('connection', (socket) => this.#take(socket))
    this.#watch('')
  }

  /** Takes the port and starts the app. */
  static async open(options: DevOptions): Promise<DevServer> {
    // Half-open: a client may have said everything and still wait for its answer.
    const server = createServer({ allowHalfOpen: true }).listen(options.port, '127.0.0.1')
    await once(server, 'listening')
    const dev = new DevServer(options, server)
    await dev.change()
    return dev
  }

  /** Puts a new server in the place of the one that runs. Changes during a change are one more. */
  change(): Promise<void> {
    this.#again = true
    this.#changing ??= this.#changeAll().finally(() => (this.#changing = undefined))
    return this.#changing
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#saved)
    for (const watcher of this.#watchers.values()) watcher.close()
    this.#server.close()
    for (const { socket } of this.#waiting.splice(0)) socket.destroy()
    for (const socket of [...this.#idle]) socket.destroy()
    await this.#end()
  }

  /**
   * Watches a folder and those in it. Each by itself: what Node calls recursive watches files, and loses a file that an
   * editor replaces by another one.
   */
  #watch(folder: string): void {
    const { print } = this.#options
    if (this.#watchers.has(folder) || this.#watchers.size >= mostFolders) return
    const path = join(this.#options.folder, folder)
    if (path === resolve(this.#options.folder, process.env.DATA_DIR ?? '.data')) return
    try {
      const watcher = watch(path, (_, name) => {
        if (name === null) return
        const changed = join(folder, name)
        if (isWatched(name) && isFolder(join(path, name))) this.#watch(changed)
        if (!isOfApp(name)) return
        clearTimeout(this.#saved)
        this.#saved = setTimeout(() => void this.change(), togetherMs)
      })
      watcher.on('error', () => watcher.close())
      watcher.once('close', () => this.#watchers.delete(folder))
      this.#watchers.set(folder, watcher)
      for (const entry of readdirSync(path, { withFileTypes: true }))
        if (entry.isDirectory() && isWatched(entry.name)) this.#watch(join(folder, entry.name))
    } catch (error) {
      print(`${path} is not watched: ${String(error)}\n`)
    }
  }

  async #changeAll(): Promise<void> {
    while (this.#again && !this.#isClosed) {
      this.#again = false
      await this.#end()
      if (!this.#isClosed) await this.#start()
    }
  }

  async #start(): Promise<void> {
    const { folder, print } = this.#options
    const began = performance.now()
    const isSource = import.meta.filename.endsWith('.ts')
    const child = spawn(
      process.execPath,
      [
        '--disable-warning=ExperimentalWarning',
        ...(process.features.typescript ? [] : ['--experimental-strip-types']),
        ...(isSource ? ['--conditions=oracle-runtime-source'] : []),
        fileURLToPath(new URL(isSource ? './dev-child.ts' : './dev-child.js', import.meta.url)),
        this.url,
      ],
      {
        cwd: folder,
        env: { ...process.env, PORT: String(this.#port) },
        stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      },
    )
    this.#child = child
    this.#fault = undefined
    let printed = ''
    const take = (bytes: Buffer) => {
      const text = bytes.toString()
      printed = (printed + text).slice(-shownLength)
      // The address behind the port is nobody's business.
      print(text.replace(/http:\/\/127\.0\.0\.1:\d+/g, this.url))
    }
    child.stdout?.on('data', take)
    child.stderr?.on('data', take)
    const listens = new Promise<void>((resolve) => {
      child.once('message', (message: { port: number }) => {
        this.#target = message.port
        for (const { socket, said } of this.#waiting.splice(0))
          this.#lead(socket, message.port, said)
        print(`  ${this.url} after ${Math.round(performance.now() - began)} ms\n`)
        resolve()
      })
    })
    const ended = once(child, 'close').then(() => {
      if (this.#child !== child) return
      this.#child = undefined
      this.#target = undefined
      if (this.#isClosed) return
      this.#fault = printed.trim() || 'The server ended without a word.'
      print('The server ended. The next save starts it again.\n')
      for (const { socket, said } of this.#waiting.splice(0)) this.#refuse(socket, said)
    })
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(() => {
        this.#fault = `The app does not listen after ${patienceMs / 1000} seconds.`
        print(`${this.#fault}\n`)
        for (const { socket, said } of this.#waiting.splice(0)) this.#refuse(socket, said)
        resolve()
      }, patienceMs)
    })
    await Promise.race([listens, ended, late])
    clearTimeout(timer)
  }

  /** Ends the server of the app; what it was carrying goes on in the next one. */
  async #end(): Promise<void> {
    const child = this.#child
    this.#child = undefined
    this.#target = undefined
    this.#fault = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    const kill = setTimeout(() => child.kill('SIGKILL'), endMs)
    await ended
    clearTimeout(kill)
  }

  #take(socket: Socket): void {
    socket.on('error', () => socket.destroy())
    this.#place(socket, [])
  }

  #place(socket: Socket, said: Buffer[]): void {
    if (socket.destroyed || this.#isClosed) return void socket.destroy()
    if (this.#target !== undefined) this.#lead(socket, this.#target, said)
    else if (this.#fault !== undefined) this.#refuse(socket, said)
    else if (this.#waiting.length < mostWaiting) this.#waiting.push({ socket, said })
    else socket.destroy()
  }

  /**
   * Leads a connection to the server. A server that begins to end closes connections on which it has heard nothing: what was
   * said on such a connection is said to the next server. A client whose connection was idle then keeps it.
   */
  #lead(near: Socket, port: number, said: Buffer[] = []): void {
    const far = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    const watch = new AnswerWatch()
    let isAnswered = false
    let length = said.reduce((sum, bytes) => sum + bytes.length, 0)
    if (said[0]) watch.ask(said[0])
    for (const bytes of said) far.write(bytes)
    const hear = (bytes: Buffer) => {
      // What a client says after an answer is its next request.
      if (watch.isComplete) {
        watch.ask(bytes)
        isAnswered = false
        length = 0
      }
      length += bytes.length
      if (!isAnswered && length <= mostSaidAgain) said.push(bytes)
      far.write(bytes)
    }
    const hang = () => far.end()
    near.on('data', hear).on('end', hang).resume()
    far.on('data', (bytes: Buffer) => {
      watch.hear(bytes)
      isAnswered = true
      said.length = 0
      near.write(bytes)
    })
    far.on('error', () => far.destroy())
    far.on('end', () => far.destroy())
    const leave = () => far.destroy()
    near.once('close', leave)
    far.once('close', () => {
      near.off('data', hear).off('end', hang).off('close', leave)
      // Without a listener a stream that flows would lose what the client says next.
      near.pause()
      const mayRepeat = !isAnswered && length <= mostSaidAgain && !near.destroyed
      // The server may be about to end without our knowing: a moment later there is the next one.
      if (mayRepeat && length > 0) setTimeout(() => this.#place(near, said), againMs)
      else if (watch.isComplete) this.#keep(near)
      else near.end()
    })
  }

  /** Keeps the connection of a client that waits for nothing, until the client says something or hangs up. */
  #keep(near: Socket): void {
    const isLeft = near.destroyed || near.readableEnded
    if (isLeft || this.#isClosed || this.#idle.size >= mostWaiting) return void near.end()
    this.#idle.add(near)
    const hear = (bytes: Buffer) => {
      leave()
      near.pause()
      this.#place(near, [bytes])
    }
    const end = () => {
      leave()
      near.end()
    }
    const leave = () => {
      this.#idle.delete(near)
      near.setTimeout(0).off('timeout', end).off('data', hear).off('end', end).off('close', leave)
    }
    near.setTimeout(idleMs).once('timeout', end)
    near.on('data', hear).once('end', end).once('close', leave).resume()
  }

  /** Says why there is no server: to a page, which asks again by itself, or as JSON. */
  #refuse(socket: Socket, said: readonly Buffer[]): void {
    const fault = this.#fault ?? ''
    const answer = (bytes: Buffer) => {
      const isPage = /^accept:[^\r\n]*text\/html/im.test(bytes.toString('latin1'))
      const body = isPage
        ? `<!doctype html><meta http-equiv="refresh" content="1"><title>The app cannot start</title><pre>${escaped(fault)}</pre>`
        : JSON.stringify({ error: 'The app cannot start.', code: 'UNAVAILABLE', details: fault })
      const type = isPage ? 'text/html' : 'application/json'
      socket.end(
        `HTTP/1.1 503 Service Unavailable\r\nContent-Type: ${type}; charset=utf-8\r\nRetry-After: 1\r\n` +
          `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
      )
    }
    const [first] = said
    if (first) answer(first)
    else socket.once('data', answer).resume()
  }
}

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
