import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { scriptedModel, testApp } from '#core/testing'
import { bundled } from '../plugins/index.ts'
import { median } from './support/target.ts'

// Measures what calls cost who has the plugins of `npm start` and does not call: the boot, the memory when nothing goes on, and a turn,
// beside the same app with FEATURES=calls=off. Each measure is a process of its own, and the two alternate.
const rounds = 11
const turns = { before: 40, measured: 60 }
/** How many times as much as without the plugin is allowed. */
const goals = { bootMs: 1.05, rssMb: 1.03, turnMs: 1.05, turnCpuMs: 1.05 }
const words = {
  bootMs: 'ms of CPU at boot',
  rssMb: 'MB when nothing goes on',
  turnMs: 'ms a turn (p50)',
  turnCpuMs: 'ms of CPU a turn',
}

type Seen = Record<keyof typeof goals, number>
type How = 'with' | 'without'

const cpuMs = (from?: NodeJS.CpuUsage) => {
  const { user, system } = process.cpuUsage(from)
  return (user + system) / 1_000
}

async function measureOnce(how: How): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-calls-'))
  process.once('exit', () => rmSync(folder, { recursive: true }))
  const features = { calls: how === 'with' }
  const env = { NODE_ENV: 'test', DATA_DIR: folder }
  // What every app loads, and the tables, are there before the clock starts.
  await (await testApp({ plugins: bundled, features, env, model: scriptedModel([]) })).close()
  const from = process.cpuUsage()
  const app = await testApp({
    ...{ plugins: bundled, features, env },
    model: scriptedModel(Array.from({ length: turns.before + turns.measured }, () => 'Hello.')),
  })
  await app.get('/health')
  const bootMs = cpuMs(from)
  await sleep(1_500)
  for (let n = 0; n < 4; n++) globalThis.gc?.()
  await sleep(200)
  const rssMb = process.memoryUsage().rss / 1e6
  const user = await app.user()
  const took: number[] = []
  let began = process.cpuUsage()
  for (let n = 0; n < turns.before + turns.measured; n++) {
    if (n === turns.before) began = process.cpuUsage()
    const at = performance.now()
    await user.say('Hi')
    if (n >= turns.before) took.push(performance.now() - at)
  }
  const turnCpuMs = cpuMs(began) / turns.measured
  process.send?.({ bootMs, rssMb, turnMs: median(took), turnCpuMs } satisfies Seen, () =>
    process.exit(),
  )
}

async function inOwnProcess(how: How): Promise<Seen> {
  const child = fork(import.meta.filename, [how], {
    execArgv: [...process.execArgv, '--expose-gc'],
  })
  return ((await once(child, 'message')) as [Seen])[0]
}

async function measure(): Promise<void> {
  const without: Seen[] = []
  const having: Seen[] = []
  for (let round = 0; round < rounds; round++) {
    // Who comes first alternates, too.
    const order: How[] = round % 2 === 0 ? ['without', 'with'] : ['with', 'without']
    for (const how of order) (how === 'with' ? having : without).push(await inOwnProcess(how))
  }
  for (const key of ['bootMs', 'rssMb', 'turnMs', 'turnCpuMs'] as const) {
    const of = (all: readonly Seen[]) => median(all.map((one) => one[key])).toFixed(1)
    const ratio = median(having.map((one, round) => one[key] / without[round]![key]))
    console.log(
      `calls, unused: ${of(having)} ${words[key]}, ${of(without)} without; ` +
        `ratio ${ratio.toFixed(3)}, median of ${rounds} (goal: at most ${goals[key]})`,
    )
    if (ratio > goals[key] && process.env.BENCH_GATE) process.exitCode = 1
  }
}

const [, , how] = process.argv
await (how === undefined ? measure() : measureOnce(how as How))
