/**
 * Measures what the plugin of payments costs who asks no price, and who asks one: the CPU time of a turn with three tool calls,
 * and that of a boot up to its first answer. Two of the servers are alike and without the plugin, and what they differ by is the
 * noise. BENCH_DATABASE_URL measures on PostgreSQL.
 *
 * Two processes of one program differ by several per cent for as long as they live, so the servers of the turns share a process,
 * in which short rounds alternate. The process is started anew several times, each time with the servers in another order.
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
    generations: { type: 'string', default: '8' },
    rounds: { type: 'string', default: '24' },
    sessions: { type: 'string', default: '15' },
    boots: { type: 'string', default: '30' },
  },
})
const generations = Number(values.generations)
const rounds = Number(values.rounds)
const perRound = Number(values.sessions)
const boots = Number(values.boots)
const warmUps = 8

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

type Costs = Record<Kind, number[]>
const none = (): Costs => ({ off: [], 'off again': [], 'no price': [], price: [] })

/** The value below which a part of the values lies. */
const quantile = (values: readonly number[], part: number) =>
  values.toSorted((a, b) => a - b)[Math.round(part * (values.length - 1))] ?? NaN

/**
 * Says what each kind costs, and how that compares with the mean of the two servers without the plugin in the same round: the
 * median, and between what it lies with a certainty of 95 %, however the rounds are spread.
 */
function report(what: string, costs: Costs): void {
  for (const kind of kinds) {
    const ratios = costs[kind].map(
      (cost, i) => cost / ((costs.off[i]! + costs['off again'][i]!) / 2),
    )
    const margin = 0.98 / Math.sqrt(ratios.length)
    const [least, middle, most] = [0.5 - margin, 0.5, 0.5 + margin].map((part) =>
      asPercent(quantile(ratios, part)),
    )
    const goal = kind === 'price' && what === 'turn' ? ' (at most +10 %)' : ''
    console.log(
      `${what} | ${kind} | ${median(costs[kind]).toFixed(2)} ms | ${middle}${goal}, ${least} to ${most}`,
    )
  }
}

/** Adds what a turn costs with each kind of server, in the rounds of one process that has them all. */
async function measure(nth: number, model: number, costs: Costs): Promise<void> {
  const order = inTurn(nth)
  const args = [String(model), join(folder, String(nth)), ...order.map((kind) => priceOf[kind])]
  const servers = await Server.startAll('priced-servers.ts', args)
  // The first rounds only warm the process up.
  for (let round = -warmUps; round < rounds; round++)
    for (const i of inTurn(round + warmUps).map((kind) => order.indexOf(kind))) {
      const server = servers[i]!
      const cost = await server.cost(await server.sessions(perRound))
      if (round >= 0) costs[order[i]!].push(cost)
    }
  for (const server of servers) server.stop()
}

async function turns(): Promise<void> {
  const { port } = await start('endpoint.ts', [])
  const costs = none()
  for (let nth = 0; nth < generations; nth++) await measure(nth, port, costs)
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
  if (generations > 0) await turns()
  if (boots > 0) await starts()
} finally {
  await allEnded()
  rmSync(folder, { recursive: true, force: true })
}
