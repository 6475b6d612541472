/**
 * Compares the query gateway with etcd's own HTTP gateway, in front of the same etcd, in alternating rounds of one run:
 * throughput over the same number of connections, and the CPU time of our process per request. Then many more requests
 * show whether the heap grows. The bench needs the packages that examples/etcd names.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startEtcd } from '../examples/etcd/etcd.ts'
import { beTarget, drive, median, Target } from './support/target.ts'

const rounds = 11
const perRound = 4000
const connections = 16
const manyRequests = Number(process.env.BENCH_GATEWAY_REQUESTS ?? 300_000)
const warmUp = 8000
const wrkRounds = 7

async function serve(): Promise<void> {
  const { createApp } = await import('#core')
  const { default: gateway } = await import('../plugins/query-gateway/index.ts')
  const app = createApp({
    plugins: [gateway],
    env: {
      ...process.env,
      DATA_DIR: ':memory:',
      LOG_LEVEL: 'error',
      RATE_LIMIT_PER_MINUTE: '1000000000',
      GATEWAY_RATE_PER_MINUTE: '1000000000',
      GATEWAY_DIALECT: 'grpc-gateway',
    },
  })
  const { url } = await app.listen({ port: 0, host: '127.0.0.1' })
  beTarget(Number(new URL(url).port))
}

const body = JSON.stringify({ key: Buffer.from('stove').toString('base64') })
const request = [
  'POST /v3/kv/range HTTP/1.1',
  'Host: localhost',
  'Content-Type: application/json',
  `Content-Length: ${body.length}`,
  '',
  body,
].join('\r\n')

async function measure(): Promise<void> {
  const etcd = await startEtcd()
  process.env.GATEWAY_UPSTREAM = etcd.address
  process.env.GATEWAY_DESCRIPTORS = etcd.descriptors
  const ours = new Target(import.meta.filename, 'serve')
  try {
    await ours.start()
    const theirPort = Number(etcd.address.split(':')[1])
    await fetch(`http://${etcd.address}/v3/kv/put`, {
      method: 'POST',
      body: JSON.stringify({ key: Buffer.from('stove').toString('base64'), value: 'bGl0' }),
    })
    await ready(ours.port)
    const perSecond = async (port: number, requests: number) => {
      const start = performance.now()
      await Promise.all(
        Array.from({ length: connections }, () => drive(port, request, requests / connections)),
      )
      return requests / ((performance.now() - start) / 1000)
    }
    for (const port of [ours.port, theirPort]) await perSecond(port, warmUp)
    const mine: number[] = []
    const other: number[] = []
    const cpu: number[] = []
    const etcdCpu = { mine: [] as number[], other: [] as number[] }
    for (let round = 0; round < rounds; round++) {
      const turn = async (who: 'mine' | 'other') => {
        const etcdBefore = cpuOf(etcd.pid)
        const note = () => etcdCpu[who].push((cpuOf(etcd.pid) - etcdBefore) / perRound)
        if (who === 'other') {
          other.push(await perSecond(theirPort, perRound))
          return note()
        }
        const before = (await ours.usage('cpu')).cpu
        mine.push(await perSecond(ours.port, perRound))
        cpu.push(((await ours.usage('cpu')).cpu - before) / perRound)
        note()
      }
      for (const who of round % 2 ? (['other', 'mine'] as const) : (['mine', 'other'] as const))
        await turn(who)
    }
    print(`${rounds} rounds of ${perRound} requests over ${connections} connections`)
    print(`etcd's own gateway:   ${median(other).toFixed(0)} requests per second`)
    print(`query gateway:        ${median(mine).toFixed(0)} requests per second`)
    const ratio = median(mine.map((value, index) => value / (other[index] ?? NaN)))
    print(`ratio:                ${ratio.toFixed(2)} (median of rounds)`)
    print(`CPU per request:      ${median(cpu).toFixed(0)} µs`)
    print(
      `CPU of etcd:          ${median(etcdCpu.other).toFixed(0)} µs as a gateway, ${median(etcdCpu.mine).toFixed(0)} µs behind ours`,
    )
    print('')
    if (spawnSync('wrk', ['-v']).error) print('wrk is not installed: left out (Debian has it)')
    else await byWrk(ours, theirPort, etcd.pid)
    const before = await ours.usage('gc')
    await perSecond(ours.port, manyRequests)
    const after = await ours.usage('gc')
    print(
      `heap before and after ${manyRequests} requests: ${mib(before.heap)} and ${mib(after.heap)} MiB`,
    )
  } finally {
    ours.process.kill()
    await etcd.stop()
  }
}

/** The same by wrk, a load generator in C: what a client in Node cannot tell apart, it can. The two take turns. */
async function byWrk(ours: Target, theirPort: number, etcdPid: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'oracle-wrk-'))
  const script = join(folder, 'range.lua')
  writeFileSync(
    script,
    `wrk.method = 'POST'\nwrk.body = '${body}'\nwrk.headers['Content-Type'] = 'application/json'\n`,
  )
  const run = (port: number) => {
    const { stdout } = spawnSync(
      'wrk',
      [
        '-t',
        '1',
        '-c',
        String(connections),
        '-d',
        '4s',
        '-s',
        script,
        `http://127.0.0.1:${port}/v3/kv/range`,
      ],
      { encoding: 'utf8' },
    )
    if (/Non-2xx/.test(stdout)) throw new Error(stdout)
    const number = (pattern: RegExp) => Number(pattern.exec(stdout)?.[1])
    return { perSecond: number(/Requests\/sec:\s+([\d.]+)/), requests: number(/(\d+) requests in/) }
  }
  try {
    const ratios: number[] = []
    const cpu: number[] = []
    const theirCpu: number[] = []
    const behind: number[] = []
    // The first seconds compile what the others run.
    for (const port of [theirPort, ours.port]) run(port)
    for (let round = 0; round < wrkRounds; round++) {
      const etcdBefore = cpuOf(etcdPid)
      const other = run(theirPort)
      theirCpu.push((cpuOf(etcdPid) - etcdBefore) / other.requests)
      const before = (await ours.usage('cpu')).cpu
      const etcdThen = cpuOf(etcdPid)
      const mine = run(ours.port)
      cpu.push(((await ours.usage('cpu')).cpu - before) / mine.requests)
      behind.push((cpuOf(etcdPid) - etcdThen) / mine.requests)
      ratios.push(mine.perSecond / other.perSecond)
      print(
        `wrk, round ${round + 1}:         ours ${mine.perSecond.toFixed(0)}, etcd's own ${other.perSecond.toFixed(0)} requests per second`,
      )
    }
    print(`wrk, ratio:           ${median(ratios).toFixed(2)} (median of rounds; goal 1.00)`)
    print(
      `wrk, CPU per request: ${median(cpu).toFixed(0)} µs ours and ${median(behind).toFixed(0)} µs etcd behind it, ` +
        `${median(theirCpu).toFixed(0)} µs etcd as a gateway`,
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Waits until the gateway has read its descriptors and serves its routes. */
async function ready(port: number): Promise<void> {
  for (;;) {
    const { status } = await fetch(`http://127.0.0.1:${port}/v3/kv/range`, { method: 'POST', body })
    if (status === 200) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** The user and system time of a process in microseconds, read from /proc, whose ticks are hundredths of a second. */
function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * 10_000
}

const print = (line: string) => process.stdout.write(`${line}\n`)
const mib = (bytes: number) => (bytes / 1024 / 1024).toFixed(1)

if (process.argv[2] === 'serve') await serve()
else await measure()
