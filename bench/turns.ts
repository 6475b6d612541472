/**
 * Measures a turn over real HTTP: the runtime with its runs, journal and checkpoints in SQLite, beside a hand-written
 * loop on node:http that stores nothing. Both call one OpenAI-compatible endpoint. Each of the three is a process of its
 * own, and only the CPU time of the two servers counts. The rounds of the two alternate.
 */
import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { median } from './support/target.ts'
import { allEnded, Server, start, tell } from './support/turn-client.ts'

const chosen = process.argv[2]?.split(',')
const rounds = 10
const perRound = 100
const warmUp = 500
const sessionLength = 120
const chats = 500
const words = 70
const paceMs = 100

const folder = mkdtempSync(join(tmpdir(), 'bench-turns-'))

const rows: [what: string, loop: string, ours: string, goal: string][] = []
const row = (...cells: (typeof rows)[number]) => {
  rows.push(cells)
  console.log(cells.join(' | '))
}
const ms = (value: number) => `${value.toFixed(2)} ms`
const times = (value: number) => `${value.toFixed(2)} times`

async function threeTools(loop: Server, own: Server): Promise<void> {
  for (const [name, atOnce, goal] of [
    ['one after the other', 1, 'goal 3 times, at most 4'],
    ['eight at once', 8, ''],
  ] as const) {
    for (const server of [loop, own]) await server.cost(await server.sessions(warmUp), 1, atOnce)
    const pairs: [number, number][] = []
    for (let round = 0; round < rounds; round++)
      pairs.push([
        await loop.cost(await loop.sessions(perRound), 1, atOnce),
        await own.cost(await own.sessions(perRound), 1, atOnce),
      ])
    const ratio = median(pairs.map(([a, b]) => b / a))
    row(
      `CPU of a turn with three tool calls, ${name}`,
      ms(median(pairs.map(([a]) => a))),
      `${ms(median(pairs.map(([, b]) => b)))}, ${times(ratio)}`,
      goal,
    )
  }
}

async function longSessions(loop: Server, own: Server): Promise<void> {
  const cells: string[] = []
  for (const server of [loop, own]) {
    const sessions = await server.sessions(10)
    const tenths: number[] = []
    for (let i = 0; i < sessionLength / 10; i++) tenths.push(await server.cost(sessions, 10))
    const [first, last] = [tenths[0]!, tenths.at(-1)!]
    cells.push(`${ms(first)} -> ${ms(last)}, ${times(last / first)}`)
  }
  row(
    `turns 1 to 10 against ${sessionLength - 9} to ${sessionLength} of a session`,
    cells[0]!,
    cells[1]!,
    'at most 2 times',
  )
}

async function manyChats(loop: Server, own: Server): Promise<void> {
  const message = `talk ${words} ${paceMs}`
  const ideal = ((words - 1) * paceMs) / 1000
  const costs: { cpu: number[]; wall: number[]; bytes: number[]; heap: number[]; rss: number[] }[] =
    [loop, own].map(() => ({ cpu: [], wall: [], bytes: [], heap: [], rss: [] }))
  // The first round warms up. Memory has a round of its own, because the garbage collection before its reading costs CPU.
  for (const round of ['first', 'cpu', 'cpu', 'cpu', 'memory'] as const)
    for (const [i, server] of [loop, own].entries()) {
      const sessions = await server.sessions(chats)
      const before = await server.usage('gc')
      const from = performance.now()
      const all = Promise.all(sessions.map((session) => server.turn(session, message)))
      await sleep((words * paceMs) / 2)
      const during = await server.usage(round === 'memory' ? 'gc' : 'cpu')
      const heard = await all
      const wall = performance.now() - from
      const { cpu } = await server.usage()
      const cost = costs[i]!
      if (round === 'first') continue
      if (round === 'memory') {
        cost.heap.push((during.heap - before.heap) / chats / 1000)
        cost.rss.push((during.rss - before.rss) / chats / 1000)
        continue
      }
      cost.cpu.push((cpu - before.cpu) / chats / words)
      cost.wall.push(wall)
      cost.bytes.push(heard.reduce((sum, { bytes }) => sum + bytes, 0) / chats / words)
    }
  const [bare, ours] = costs as [(typeof costs)[0], (typeof costs)[0]]
  const of = (pick: 'wall' | 'cpu' | 'bytes' | 'heap' | 'rss', digits: number, scale = 1) =>
    [bare, ours].map((cost) => (median(cost[pick]) * scale).toFixed(digits)) as [string, string]
  const [loopWall, ownWall] = of('wall', 2, 0.001)
  row(
    `${chats} chats at ${1000 / paceMs} tokens/s`,
    `${loopWall} s`,
    `${ownWall} s`,
    `ideal ${ideal} s, at most ${(ideal * 1.15).toFixed(2)} s`,
  )
  const [loopCpu, ownCpu] = of('cpu', 0)
  const ratio = median(ours.cpu.map((own, i) => own / bare.cpu[i]!))
  row(`CPU a token, paced`, `${loopCpu} µs`, `${ownCpu} µs, ${times(ratio)}`, 'at most 2 times')
  const [loopHeap, ownHeap] = of('heap', 0)
  const [loopRss, ownRss] = of('rss', 0)
  row(
    'memory an open stream: heap, process',
    `${loopHeap}, ${loopRss} kB`,
    `${ownHeap}, ${ownRss} kB`,
    'at most 100 kB',
  )
  const [loopBytes, ownBytes] = of('bytes', 0)
  row('bytes a token on the wire', loopBytes, ownBytes, 'at most 110')
}

async function firstToken(loop: Server, own: Server): Promise<void> {
  const times: [number[], number[]] = [[], []]
  for (const [i, server] of [loop, own].entries()) {
    const sessions = await server.sessions(300)
    for (const session of sessions) {
      times[i]!.push((await server.turn(session, 'talk 3 5')).firstMs)
      await sleep(10)
    }
  }
  row(
    'time to the first token, the model at once, p50',
    ms(median(times[0])),
    ms(median(times[1])),
    'at most 5 ms',
  )
}

async function onDemand(endpoint: ChildProcess, port: number): Promise<void> {
  type Tally = { calls: number; bytesOfFirst: number }
  const sizes: number[] = []
  for (const [n, others] of [10, 100, 500].entries()) {
    const args = [String(port), join(folder, `demand-${n}`), 'on-demand', String(others)]
    const server = await Server.start('turn-server.ts', args)
    const [session = ''] = await server.sessions(1)
    await tell(endpoint, 'reset')
    await server.turn(session, 'load sky')
    const { bytesOfFirst, calls } = await tell<Tally>(endpoint, 'tally')
    sizes.push(bytesOfFirst)
    server.stop()
    if (n > 0) continue
    const always = await Server.start('turn-server.ts', [String(port), join(folder, 'always')])
    await always.turn((await always.sessions(1))[0]!, 'load sky')
    const direct = await tell<Tally>(endpoint, 'tally')
    always.stop()
    row(
      'model calls of a turn that needs an on-demand tool',
      String(direct.calls),
      `${calls}, +${calls - direct.calls}`,
      '+1',
    )
  }
  row(
    'first request with 10, 100, 500 on-demand tools, in ten plugins',
    'grows',
    `${sizes.join(', ')} bytes`,
    'equal within 5 %',
  )
}

/** Measures the memory of a new server before and after its first turn. */
async function memory(port: number): Promise<void> {
  const cells: string[] = []
  for (const [script, ...args] of [
    ['hand-loop.ts', String(port)],
    ['turn-server.ts', String(port), join(folder, 'memory')],
  ] as const) {
    const server = await Server.start(script, args)
    const idle = await server.usage('gc')
    await sleep(3_000) // the runtime imports modules for the first caller shortly after it listens
    const warm = await server.usage('gc')
    await server.turn((await server.sessions(1))[0]!, 'weather')
    const after = await server.usage('gc')
    cells.push([idle, warm, after].map(({ rss }) => (rss / 2 ** 20).toFixed(0)).join(', '))
    server.stop()
  }
  row(
    'memory in MB: listening, idle, after the first turn',
    cells[0]!,
    cells[1]!,
    'at most 130, 130, 200',
  )
}

async function bench(): Promise<void> {
  const parts = { threeTools, longSessions, firstToken, manyChats }
  const { child: endpoint, port } = await start('endpoint.ts', [])
  const loop = await Server.start('hand-loop.ts', [String(port)])
  const own = await Server.start('turn-server.ts', [String(port), join(folder, 'own')])
  await sleep(3_000) // the runtime imports its large modules after it listens
  for (const [name, measure] of Object.entries(parts))
    if (!chosen || chosen.includes(name)) await measure(loop, own)
  for (const server of [loop, own]) server.stop()
  if (!chosen || chosen.includes('onDemand')) await onDemand(endpoint, port)
  if (!chosen || chosen.includes('memory')) await memory(port)
}

try {
  await bench()
} finally {
  await allEnded()
  rmSync(folder, { recursive: true, force: true })
}
