import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { bareEnv } from './process.ts'

/** What a watched server tells of itself. */
export interface Watched {
  /** The longest that its event loop was kept since the last question. */
  readonly pauseMs: number
  readonly heap: number
}

/** A server in a process of its own, which tells how long its event loop was kept. Ends with its owner. */
export class WatchedServer implements AsyncDisposable {
  readonly url: string
  readonly #child: ChildProcess
  #complaint: () => string

  private constructor(url: string, child: ChildProcess, complaint: () => string) {
    this.url = url
    this.#child = child
    this.#complaint = complaint
  }

  static async start(env: Readonly<Record<string, string>> = {}): Promise<WatchedServer> {
    const script = fileURLToPath(new URL('./watched-server.ts', import.meta.url))
    const child = spawn(
      process.execPath,
      [
        '--disable-warning=ExperimentalWarning',
        '--conditions=oracle-runtime-source',
        '--expose-gc',
        script,
      ],
      {
        env: {
          ...bareEnv(),
          NODE_ENV: 'test',
          DATA_DIR: ':memory:',
          RATE_LIMIT_PER_MINUTE: '1000000',
          CALLS_PER_MINUTE: '1000000',
          AUTH_FAILURES_PER_MINUTE: '1000000',
          TURNS_AT_ONCE: '1000000',
          TURNS_PER_DAY: '1000000',
          TURNS_AT_ONCE_TOTAL: '1000000',
          SOCKETS_PER_DID: '1000000',
          SOCKETS_PER_ADDRESS: '1000000',
          STREAMS_PER_ADDRESS: '1000000',
          ...env,
        },
        stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      },
    )
    let complaint = ''
    child.stderr!.setEncoding('utf8').on('data', (text) => {
      complaint = (complaint + text).slice(-10_000)
    })
    const [told] = (await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(() => [undefined]),
    ])) as [{ url: string } | undefined]
    if (!told) throw new Error(`the watched server did not start: ${complaint}`)
    return new WatchedServer(told.url, child, () => complaint)
  }

  /** What the server logged as an error, or wrote to standard error. */
  get complaint(): string {
    return this.#complaint()
  }

  get isUp(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** How long its event loop was kept since the last question; waits for as long as it is kept. */
  async ask(question: 'pause' | 'collect' = 'pause', waitMs = 60_000): Promise<Watched> {
    const gone = new AbortController()
    const answer = once(this.#child, 'message', {
      signal: AbortSignal.any([AbortSignal.timeout(waitMs), gone.signal]),
    })
    const onExit = () => gone.abort()
    this.#child.once('exit', onExit)
    this.#child.send(question)
    try {
      const [told] = (await answer) as [Watched]
      return told
    } finally {
      this.#child.off('exit', onExit)
    }
  }

  /** Kills the server as a crash does. */
  async kill(): Promise<void> {
    if (!this.isUp) return
    this.#child.kill('SIGKILL')
    await once(this.#child, 'exit')
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill()
  }
}

/**
 * The shortest of the longest pauses over some tries. What an input costs it costs every time; what the machine does
 * beside the test comes and goes.
 */
export async function leastPause(
  server: WatchedServer,
  tries: number,
  attempt: () => Promise<unknown>,
): Promise<number> {
  let least = Infinity
  for (let nth = 0; nth < tries; nth++) {
    await server.ask()
    await attempt()
    least = Math.min(least, (await server.ask()).pauseMs)
  }
  return least
}
