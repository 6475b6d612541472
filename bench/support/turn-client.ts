import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import http from 'node:http'
import { join } from 'node:path'
import { createWallet } from '../../core/testing/wallet.ts'

interface Usage {
  /** The CPU time in microseconds. */
  readonly cpu: number
  readonly heap: number
  readonly rss: number
}

interface Heard {
  readonly bytes: number
  /** The time from the request to the first word; `ms` is the time to the end. */
  readonly firstMs: number
  readonly ms: number
  /** When each event with words came, by `performance.now()`. */
  readonly wordsAt: readonly number[]
}

/** The line with which an event with words begins. */
const word = 'event: message'

type Env = Readonly<Record<string, string>>

const children: ChildProcess[] = []

/** Where a server of a process listens, and who it is. */
interface Place {
  readonly port: number
  readonly did?: string
}

/** Starts a process of the bench, and waits until the process has sent its port. */
export const start = (script: string, args: readonly string[], env: Env = {}) =>
  begin<Place>(script, args, env)

/** Starts a process of the bench, and waits for what the process sends first. */
async function begin<T extends object>(script: string, args: readonly string[], env: Env) {
  const child = fork(join(import.meta.dirname, script), [...args], {
    env: { ...process.env, ...env },
    execArgv: [...process.execArgv, ...(process.env.BENCH_PROFILE === script ? profile : [])],
  })
  children.push(child)
  const [ready] = (await once(child, 'message')) as [T]
  return { child, ...ready }
}
const profile = ['--cpu-prof', '--cpu-prof-dir=/tmp/bench-profile']

/** Asks a process of the bench. */
export async function tell<T>(child: ChildProcess, what: string): Promise<T> {
  child.send(what)
  const [answer] = (await once(child, 'message')) as [T]
  return answer
}

const wallet = await createWallet()

/** A server under test, with the requests that the bench sends to it. */
export class Server {
  readonly #port: number
  readonly #child: ChildProcess
  readonly #headers: Record<string, string>
  readonly #agent = new http.Agent({ keepAlive: true, maxFreeSockets: 1000 })

  private constructor(child: ChildProcess, port: number, headers: Record<string, string>) {
    this.#child = child
    this.#port = port
    this.#headers = headers
  }

  static async start(script: string, args: readonly string[], env?: Env): Promise<Server> {
    const { child, ...place } = await start(script, args, env)
    return Server.#at(child, place)
  }

  /** The servers of a process that has several; the first one that is stopped ends them all. */
  static async startAll(script: string, args: readonly string[], env: Env = {}): Promise<Server[]> {
    const { child, servers } = await begin<{ servers: Place[] }>(script, args, env)
    return Promise.all(servers.map((place) => Server.#at(child, place)))
  }

  static async #at(child: ChildProcess, { port, did }: Place): Promise<Server> {
    if (!did) return new Server(child, port, {})
    const invocation = await wallet.invoke({ audience: did, lifetime: 890 })
    return new Server(child, port, {
      authorization: `Bearer ${invocation.text}`,
      'x-auth-type': 'ucan',
    })
  }

  /** `rest` lets the server do what it still has to do for its last turns, and `gc` also collects its garbage. */
  usage = (what: 'gc' | 'rest' | 'cpu' = 'cpu') => tell<Usage>(this.#child, what)

  stop(): void {
    this.#agent.destroy()
    if (this.#child.connected) this.#child.disconnect()
  }

  /** Sends a request whose answer nobody reads. */
  send = (path: string, body: object): Promise<void> => this.#post(path, body, () => undefined)

  async sessions(count: number): Promise<string[]> {
    const ids: string[] = []
    for (let i = 0; i < count; i++) {
      let body = ''
      await this.#post('/sessions', {}, (piece) => (body += piece))
      ids.push(JSON.parse(body).sessionId)
    }
    return ids
  }

  /** Says something and hears the answer to its end; `onFirst` is called with its first word. */
  async turn(session: string, message: string, onFirst?: () => void): Promise<Heard> {
    const from = performance.now()
    let bytes = 0
    let firstMs = 0
    let rest = ''
    const wordsAt: number[] = []
    await this.#post(`/messages/${session}`, { message }, (piece) => {
      bytes += piece.length
      for (let at = piece.indexOf(word); at >= 0; at = piece.indexOf(word, at + 1))
        wordsAt.push(performance.now())
      if (firstMs === 0 && (rest + piece).includes('event: message')) {
        firstMs = performance.now() - from
        onFirst?.()
      }
      rest = (rest + piece).slice(-4_000)
    })
    if (!rest.includes('event: done')) throw new Error(`A turn broke off: ${rest}`)
    return { bytes, firstMs, ms: performance.now() - from, wordsAt }
  }

  /** The CPU milliseconds of one turn with three tool calls. */
  async cost(sessions: readonly string[], turns = 1, atOnce = 1): Promise<number> {
    const before = await this.usage('gc')
    for (let n = 0; n < turns; n++)
      for (let i = 0; i < sessions.length; i += atOnce)
        await Promise.all(
          sessions.slice(i, i + atOnce).map((session) => this.turn(session, 'weather')),
        )
    const { cpu } = await this.usage('rest')
    return (cpu - before.cpu) / 1000 / turns / sessions.length
  }

  #post(path: string, body: object, onData: (piece: string) => void): Promise<void> {
    const text = JSON.stringify(body)
    return new Promise((resolve, reject) => {
      const request = http.request(
        {
          host: '127.0.0.1',
          port: this.#port,
          path,
          method: 'POST',
          agent: this.#agent,
          headers: {
            'content-type': 'application/json',
            'content-length': Buffer.byteLength(text),
            ...this.#headers,
          },
        },
        (response) => {
          if (response.statusCode! >= 300) reject(new Error(`status ${response.statusCode}`))
          response.setEncoding('latin1').on('data', onData).on('end', resolve).on('error', reject)
        },
      )
      request.on('error', reject).end(text)
    })
  }
}

/** Ends all processes of the bench. */
export async function allEnded(): Promise<void> {
  const exits = children.map(async (child) => {
    if (child.connected) child.disconnect()
    if (child.exitCode === null) await once(child, 'exit')
  })
  await Promise.all(exits)
}
