import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'

interface Usage {
  readonly cpu: number
  readonly heap: number
}

/** Makes a forked server a target: sends its port to the parent, and answers each message with its usage so far. */
export function beTarget(port: number): void {
  process.on('message', (what) => {
    if (what === 'gc') globalThis.gc?.()
    const { user, system } = process.cpuUsage()
    process.send?.({ cpu: user + system, heap: process.memoryUsage().heapUsed })
  })
  process.send?.({ port })
}

/** A server in a process of its own, whose CPU time the bench measures while it sends requests to the server. */
export class Target {
  readonly process: ChildProcess
  port = 0

  constructor(script: string, kind: string) {
    this.process = fork(script, [kind], {
      execArgv: [
        '--expose-gc',
        '--disable-warning=ExperimentalWarning',
        '--conditions=oracle-runtime-source',
      ],
    })
  }

  async start(): Promise<this> {
    const [{ port }] = (await once(this.process, 'message')) as [{ port: number }]
    this.port = port
    return this
  }

  async usage(what: 'gc' | 'cpu'): Promise<Usage> {
    this.process.send(what)
    const [usage] = (await once(this.process, 'message')) as [Usage]
    return usage
  }

  /** Sends a request many times over a few keep-alive connections; resolves to the server's CPU microseconds per request. */
  async round(request: string, requests: number, connections = 8): Promise<number> {
    const before = await this.usage('cpu')
    await Promise.all(
      Array.from({ length: connections }, () => drive(this.port, request, requests / connections)),
    )
    return ((await this.usage('cpu')).cpu - before.cpu) / requests
  }
}

/** Sends a request many times over one keep-alive connection, one after the other. */
export function drive(port: number, request: string, requests: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let left = requests
    let received = ''
    const socket = connect(port, '127.0.0.1', () => socket.write(request))
    socket.setEncoding('latin1').on('error', reject)
    socket.on('data', (chunk: string) => {
      received += chunk
      const end = received.indexOf('\r\n\r\n')
      const length = Number(/content-length: (\d+)/i.exec(received)?.[1])
      if (end < 0 || received.length < end + 4 + length) return
      if (!received.startsWith('HTTP/1.1 200')) return reject(new Error(received))
      received = ''
      if (--left > 0) socket.write(request)
      else socket.end(resolve)
    })
  })
}

/** The median of some numbers. */
export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN
}
