/**
 * Measures the first chat of a process: a server in production, as `npm start` starts it, is asked for its health a hundred times
 * a second for two seconds after it listens, and then chatted with. The model answers at once, so nearly all of the time is the
 * server's. With BENCH_GATE=1 a missed goal ends the process with 1. Argument: another checkout to measure, by default this one.
 */
import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, get } from 'node:http'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createWallet } from '../core/testing/wallet.ts'
import { median } from './support/target.ts'

const rounds = 5
const asked = { everyMs: 10, forMs: 2_000 }
const goals = { 'health p99': 30, 'first chat': 60 } as const
const root = resolve(process.argv[2] ?? join(import.meta.dirname, '..'))
const mnemonic = 'an oracle that only exists for measuring'

/** What one process showed, in milliseconds. */
type Shown = Readonly<
  Record<'health p99' | 'health most' | 'session' | 'first chat' | 'second chat', number>
>

/** Resolves to the address in the line that says that the server listens. */
function listening(server: ReturnType<typeof spawn>): Promise<string> {
  let said = ''
  return new Promise((found, failed) => {
    const hear = (piece: Buffer) => {
      said += piece.toString()
      const url = /listening on (http:\/\/[\d.:]+)/.exec(said)?.[1]
      if (url !== undefined) found(url)
    }
    server.stdout?.on('data', hear)
    server.stderr?.on('data', hear)
    server.once('exit', () => failed(new Error(`The server ended: ${said.slice(-500)}`)))
  })
}

/** How long each question for the server's health took, from the quickest to the slowest. */
async function health(url: string): Promise<number[]> {
  const agent = new Agent({ keepAlive: true })
  const times: number[] = []
  const ask = () => {
    const began = performance.now()
    get(`${url}/health`, { agent }, (answer) =>
      answer.resume().once('end', () => times.push(performance.now() - began)),
    ).on('error', () => times.push(Infinity))
  }
  const asking = setInterval(ask, asked.everyMs)
  await sleep(asked.forMs)
  clearInterval(asking)
  agent.destroy()
  return times.sort((a, b) => a - b)
}

async function round(endpoint: number): Promise<Shown> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-first-'))
  const server = spawn(process.execPath, ['--conditions=oracle-runtime-source', 'start.js'], {
    cwd: root,
    env: {
      PATH: process.env.PATH,
      NODE_ENV: 'production',
      DATA_DIR: folder,
      HOST: '127.0.0.1',
      PORT: '0',
      ORACLE_MNEMONIC: mnemonic,
      MODEL: 'openai/m',
      OPENAI_BASE_URL: `http://127.0.0.1:${endpoint}`,
    },
  })
  try {
    const url = await listening(server)
    const times = await health(url)
    const card = (await (await fetch(`${url}/.well-known/oracle.json`)).json()) as { did: string }
    const wallet = await createWallet('a user who only exists for measuring')
    const { text } = await wallet.invoke({ audience: card.did, lifetime: 600 })
    const headers = { authorization: `Bearer ${text}`, 'x-auth-type': 'ucan' }
    const post = async (path: string, body: object) => {
      const began = performance.now()
      const answer = await fetch(`${url}${path}`, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      const said = await answer.text()
      return { said, ms: performance.now() - began }
    }
    const made = await post('/sessions', {})
    const { sessionId } = JSON.parse(made.said) as { sessionId: string }
    const chat = async () => {
      const { said, ms } = await post(`/messages/${sessionId}`, {
        message: 'talk 5 0',
        stream: true,
      })
      if (!said.includes('event: done')) throw new Error(`A turn broke off: ${said.slice(-300)}`)
      return ms
    }
    return {
      'health p99': times[Math.floor(times.length * 0.99)] ?? NaN,
      'health most': times.at(-1) ?? NaN,
      session: made.ms,
      'first chat': await chat(),
      'second chat': await chat(),
    }
  } finally {
    server.kill('SIGKILL')
    await once(server, 'close')
    rmSync(folder, { recursive: true, force: true })
  }
}

const provider = fork(join(import.meta.dirname, 'support/endpoint.ts'), [], {
  execArgv: ['--conditions=oracle-runtime-source'],
})
try {
  const [{ port }] = (await once(provider, 'message')) as [{ port: number }]
  const all: Shown[] = []
  for (let nth = 0; nth < rounds; nth++) all.push(await round(port))
  console.log(
    `a process in production, ${asked.forMs / 1000} s after it listens, median of ${rounds}`,
  )
  for (const what of [
    'health p99',
    'health most',
    'session',
    'first chat',
    'second chat',
  ] as const) {
    const value = median(all.map((shown) => shown[what]))
    const goal = what in goals ? goals[what as keyof typeof goals] : undefined
    const isMissed = goal !== undefined && !(value <= goal)
    const told = goal === undefined ? '' : `, goal ${goal} ms${isMissed ? ': MISSED' : ''}`
    console.log(`${what.padEnd(12)} ${value.toFixed(1).padStart(8)} ms${told}`)
    if (isMissed && process.env.BENCH_GATE === '1') process.exitCode = 1
  }
} finally {
  provider.disconnect()
}
