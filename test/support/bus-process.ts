import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from './cluster.ts'

/** A bus in a process of a test's own, which can be killed and comes back at the same address. */
export interface BusProcess {
  readonly url: string
  /** Kills the process, which takes its connections and all that it remembers with it. */
  kill(): Promise<void>
  /** Starts a new process at the address of before. */
  startAgain(): Promise<void>
}

/** How each server is started, and what a client sends for it to say something. */
const programs = {
  nats: { hello: '', args: (port: number) => ['nats-server', '-a', '127.0.0.1', '-p', `${port}`] },
  redis: {
    hello: 'PING\r\n',
    args: (port: number) =>
      ['redis-server', '--bind', '127.0.0.1', '--port', `${port}`].concat(
        ...['--save', '', '--appendonly', 'no'],
      ),
  },
} as const

/** Starts a bus, which `onEnd` kills. */
export async function startBus(
  kind: keyof typeof programs,
  onEnd: (stop: () => Promise<void>) => void,
): Promise<BusProcess> {
  const port = await freePort()
  const { hello, args } = programs[kind]
  let running: { child: ChildProcess; exited: Promise<unknown> } | undefined
  const kill = async () => {
    running?.child.kill('SIGKILL')
    await running?.exited
  }
  const startAgain = async () => {
    const [program = '', ...rest] = args(port)
    const child = spawn(program, rest, { stdio: 'ignore' })
    running = { child, exited: once(child, 'exit') }
    while (!(await answers(port, hello))) {
      if (child.exitCode !== null) throw new Error(`${program} did not start.`)
      await sleep(30)
    }
  }
  onEnd(kill)
  await startAgain()
  return { url: `${kind}://127.0.0.1:${port}`, kill, startAgain }
}

function answers(port: number, hello: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' }, () => socket.write(hello))
    socket.once('data', () => (socket.destroy(), resolve(true)))
    socket.once('error', () => resolve(false))
  })
}
