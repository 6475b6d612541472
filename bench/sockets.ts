import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { testApp } from '#core/testing'
import { createWallet } from '../core/testing/wallet.ts'

const mostSockets = 2_000
const atOnce = 100

/** Runs the server in a process of its own, so that its memory contains nothing of the clients. */
async function serve(): Promise<void> {
  const app = await testApp({
    plugins: [],
  })
  const memory = async () => {
    for (let i = 0; i < 4; i++) {
      globalThis.gc?.()
      await sleep(50)
    }
    const { rss, heapUsed, external } = process.memoryUsage()
    return { rss, heap: heapUsed + external }
  }
  process.on('message', async () => process.send!(await memory()))
  process.on('disconnect', () => process.exit())
  process.send!({ url: app.url, oracleDid: app.oracleDid })
}

interface Memory {
  readonly rss: number
  readonly heap: number
}

/** Measures the memory of idle sockets, each in a session of its own, half of them with each of the two framings. */
export async function benchSockets(print = console.log, count = mostSockets) {
  const server = fork(import.meta.filename, ['serve'], {
    execArgv: [...process.execArgv, '--expose-gc'],
  })
  const [{ url, oracleDid }] = (await once(server, 'message')) as [
    { url: string; oracleDid: string },
  ]
  const memory = async (): Promise<Memory> => {
    server.send('memory')
    return ((await once(server, 'message')) as [Memory])[0]
  }
  const wallet = await createWallet()
  const headers = await wallet.headers(oracleDid)
  const auth = {
    invocation: headers.authorization!.slice('Bearer '.length),
    ucanDelegation: headers['x-ucan-delegation'],
  }
  const opened: WebSocket[] = []
  const open = async (nth: number) => {
    const made = await fetch(`${url}/sessions`, { method: 'POST', headers })
    const { sessionId } = (await made.json()) as { sessionId: string }
    const query = `EIO=4&transport=websocket&sessionId=${sessionId}`
    const plain = nth % 2 === 0
    const at = url.replace('http', 'ws')
    const ws = new WebSocket(plain ? `${at}/ws` : `${at}/socket.io/?${query}`, {
      perMessageDeflate: false,
    })
    opened.push(ws)
    await once(ws, 'open')
    const connected = new Promise<void>((resolve, reject) => {
      ws.on('message', (text) => String(text).includes('connected') && resolve())
      ws.on('close', (code) => reject(new Error(`a socket was closed with ${code}`)))
    })
    ws.send(plain ? JSON.stringify({ type: 'auth', sessionId, auth }) : `40${JSON.stringify(auth)}`)
    await connected
  }
  const openMany = async (many: number) => {
    for (let done = 0; done < many; done += atOnce)
      await Promise.all(Array.from({ length: atOnce }, (_, i) => open(i)))
  }
  try {
    await openMany(atOnce) // the first sockets load modules, whose memory must not count
    const before = await memory()
    const start = performance.now()
    await openMany(count)
    const ms = performance.now() - start
    const after = await memory()
    const each = (name: keyof Memory) => (after[name] - before[name]) / count / 1024
    print(`${count} sockets, each in a session of its own, opened in ${Math.round(ms)} ms`)
    print(
      `resident ${each('rss').toFixed(1)} kB each  (goal: under 30) ${each('rss') < 30 ? 'met' : 'MISSED'}`,
    )
    print(`heap and buffers ${each('heap').toFixed(1)} kB each`)
    return { resident: each('rss'), heap: each('heap') }
  } finally {
    for (const ws of opened) ws.terminate()
    server.disconnect()
  }
}

if (process.argv[2] === 'serve') await serve()
else if (import.meta.main) await benchSockets()
