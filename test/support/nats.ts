import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from './cluster.ts'

/** A NATS server of a test's own. */
export interface Nats {
  readonly url: string
  stop(): Promise<void>
}

/** Starts a NATS server, which `onEnd` stops. */
export async function startNats(onEnd: (stop: () => Promise<void>) => void): Promise<Nats> {
  const port = await freePort()
  const server = spawn('nats-server', ['-a', '127.0.0.1', '-p', String(port)], { stdio: 'ignore' })
  const exited = once(server, 'exit')
  const stop = async () => {
    if (server.exitCode === null && server.signalCode === null) server.kill('SIGKILL')
    await exited
  }
  onEnd(stop)
  while (!(await answers(port))) {
    if (server.exitCode !== null) throw new Error('NATS did not start.')
    await sleep(30)
  }
  return { url: `nats://127.0.0.1:${port}`, stop }
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' })
    socket.once('data', () => (socket.destroy(), resolve(true)))
    socket.once('error', () => resolve(false))
  })
}
