/**
 * Measures what the plugin of payments costs who asks no price, and who asks one: the CPU time of a turn with three tool calls,
 * and that of a boot up to its first answer. The servers are processes of their own whose rounds alternate; two of them are
 * alike and without the plugin, and what they differ by is the noise. BENCH_DATABASE_URL measures on PostgreSQL.
 * Many short rounds tell more than few long ones where others use the machine.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { median } from './support/target.ts'
import { allEnded, Server, start } from './support/turn-client.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '12' },
    sessions: { type: 'string', default: '60' },
    boots: { type: 'string', default: '15' },
  },
})
const rounds = Number(values.rounds)
const perRound = Number(values.sessions)
const boots = Number(values.boots)
const warmUp = 200

const folder = mkdtempSync(join(tmpdir(), 'bench-payments-'))
const kinds = ['off', 'off again', 'no price', 'price'] as const
type Kind = (typeof kinds)[number]
const priceOf: Record<Kind, string> = {
  off: 'off',
  'off again': 'off',
  'no price': 'none',
  price: 'on',
}

/** The kinds in an order that begins with another one each round. */
const inTurn = (round: number) => kinds.map((_, i) => kinds[(i + round) % kinds.length]!)
const asPercent = (ratio: number) => `${ratio >= 1 ? '+' : ''}${((ratio - 1) * 100).toFixed(1)} %`

/** What a kind costs in the quarter of the rounds in which it cost least: others on the machine only ever add to a round. */
const calm = (costs: readonly number[]) =>
  median(costs.toSorted((a, b) => a - b).slice(0, Math.max(1, Math.ceil(costs.length / 4))))

/** Says what each kind costs, beside the first one: in its calmest rounds, and by the median of all rounds. */
function report(what: string, costs: Record<Kind, number[]>): void {
  for (const kind of kinds) {
    const ratio = median(costs[kind].map((cost, i) => cost / costs.off[i]!))
    const goal = kind === 'price' && what === 'turn' ? ' (at most +10 %)' : ''
    const calmRatio = calm(costs[kind]) / calm(costs.off)
    console.log(
      `${what} | ${kind} | calm ${calm(costs[kind]).toFixed(2)} ms ${asPercent(calmRatio)}${goal}` +
        ` | median ${median(costs[kind]).toFixed(2)} ms ${asPercent(ratio)}`,
    )
  }
}

const none = (): Record<Kind, number[]> => ({ off: [], 'off again': [], 'no price': [], price: [] })

async function turns(): Promise<void> {
  const { port } = await start('endpoint.ts', [])
  const servers = new Map<Kind, Server>()
  for (const kind of kinds) {
    // Ten other plugins, as apps have: the first plugin whose tools are loaded on demand costs more than the others.
    const args = [String(port), join(folder, kind), 'always', '10']
    const server = await Server.start('turn-server.ts', args, { BENCH_PRICE: priceOf[kind] })
    servers.set(kind, server)
    await server.cost(await server.sessions(warmUp))
  }
  const costs = none()
  for (let round = 0; round < rounds; round++)
    for (const kind of inTurn(round)) {
      const server = servers.get(kind)!
      costs[kind].push(await server.cost(await server.sessions(perRound)))
    }
  for (const server of servers.values()) server.stop()
  report('turn', costs)
}

/** The CPU time of a process so far, in ms, where the system tells it. */
function cpuOf(pid: number): number | undefined {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
    return (Number(fields[11]) + Number(fields[12])) * 10 // user and system, in ticks of 10 ms
  } catch {
    return undefined
  }
}

/** The cost of a boot up to its first answer: of CPU, or of time where the system does not tell it. */
async function bootOf(kind: Kind): Promise<number> {
  const from = performance.now()
  const child = spawn(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', '--conditions=oracle-runtime-source', 'start.js'],
    {
      cwd: resolve(import.meta.dirname, '..'),
      env: {
        PATH: process.env.PATH,
        PORT: '0',
        DATA_DIR: join(folder, `boot-${kind}`),
        // A page that is missing would be built beside the boot, sooner or later.
        FEATURES: `playground=off${priceOf[kind] === 'off' ? ',payments=off' : ''}`,
        ...(kind === 'price' && { PAYMENTS_TURN_PRICE: '5000', PAYMENTS_FIRST_CREDIT: '10000' }),
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  try {
    let output = ''
    let url: string | undefined
    // The server may go on to write lines that nobody wants.
    for await (const piece of child.stdout.iterator({ destroyOnReturn: false })) {
      output += piece
      url = /listening on (http:\/\/[\d.:]+)/.exec(output)?.[1]
      if (url) break
    }
    if (!url) throw new Error(output)
    const { status } = await fetch(url)
    if (status !== 200) throw new Error(`status ${status}`)
    return cpuOf(child.pid ?? 0) ?? performance.now() - from
  } finally {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
}

async function starts(): Promise<void> {
  for (const kind of kinds) await bootOf(kind) // makes the folder, its keys and tables
  const costs = none()
  for (let round = 0; round < boots; round++)
    for (const kind of inTurn(round)) costs[kind].push(await bootOf(kind))
  report('boot', costs)
}

try {
  if (rounds > 0) await turns()
  if (boots > 0) await starts()
} finally {
  await allEnded()
  rmSync(folder, { recursive: true, force: true })
}
