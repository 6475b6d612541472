import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { scriptedModel, testApp } from '#core/testing'
import { bundled } from '../plugins/index.ts'
import { median } from './support/target.ts'

// Measures what calls cost who has the plugins of `npm start` and does not call: the boot, the memory when nothing goes on, and a turn,
// beside the same app with FEATURES=calls=off. Boots alternate in one process, which has compiled both; each of the other measures is a
// process of its own, and the two alternate, too.
const rounds = { boots: 15, processes: 7 }
const turns = { before: 60, measured: 300 }
/** How many times as much as without calls is allowed. */
const goals = { bootMs: 1.08, rssMb: 1.03, turnMs: 1.05, turnCpuMs: 1.05 }
const words = {
  bootMs: 'ms of CPU at boot',
  rssMb: 'MB when nothing goes on',
  turnMs: 'ms a turn (p50)',
  turnCpuMs: 'ms of CPU a turn',
}
type What = keyof typeof goals
type Seen = Partial<Record<What, number>>
const hows = ['without', 'with'] as const
type How = (typeof hows)[number]

const cpuMs = (from: NodeJS.CpuUsage) => {
  const { user, system } = process.cpuUsage(from)
  return (user + system) / 1_000
}

async function booted(how: How, answers = 0) {
  const from = process.cpuUsage()
  const app = await testApp({
    ...{ plugins: bundled, features: { calls: how === 'with' } },
    model: scriptedModel(Array.from({ length: answers }, () => 'Hello.')),
  })
  await app.get('/health')
  return { app, bootMs: cpuMs(from) }
}

/** Memory and turns, in a process of their own. */
async function running(how: How): Promise<Seen> {
  const { app } = await booted(how, turns.before + turns.measured)
  await sleep(1_500)
  for (let n = 0; n < 4; n++) globalThis.gc?.()
  await sleep(200)
  const rssMb = process.memoryUsage().rss / 1e6
  const user = await app.user()
  const took: number[] = []
  for (let n = 0; n < turns.before; n++) await user.say('Hi')
  const from = process.cpuUsage()
  for (let n = 0; n < turns.measured; n++) {
    const at = performance.now()
    await user.say('Hi')
    took.push(performance.now() - at)
  }
  return { rssMb, turnMs: median(took), turnCpuMs: cpuMs(from) / turns.measured }
}

async function inOwnProcess(how: How): Promise<Seen> {
  const child = fork(import.meta.filename, [how], {
    execArgv: [...process.execArgv, '--expose-gc'],
  })
  return ((await once(child, 'message')) as [Seen])[0]
}

async function measure(): Promise<void> {
  const seen: Record<How, Seen[]> = { with: [], without: [] }
  const pair = async (round: number, of: (how: How) => Promise<Seen>) => {
    for (const how of round % 2 === 0 ? hows : hows.toReversed()) seen[how].push(await of(how))
  }
  for (const how of hows) await (await booted(how)).app.close()
  for (let round = 0; round < rounds.boots; round++)
    await pair(round, async (how) => {
      const { app, bootMs } = await booted(how)
      await app.close()
      return { bootMs }
    })
  for (let round = 0; round < rounds.processes; round++) await pair(round, inOwnProcess)
  for (const what of Object.keys(goals) as What[]) {
    const of = (how: How) => median(seen[how].flatMap((one) => one[what] ?? []))
    const ratio = of('with') / of('without')
    console.log(
      `calls, unused: ${of('with').toFixed(1)} ${words[what]}, ${of('without').toFixed(1)} without them; ` +
        `ratio ${ratio.toFixed(3)} (goal: at most ${goals[what]})`,
    )
    if (ratio > goals[what] && process.env.BENCH_GATE) process.exitCode = 1
  }
}

const how = hows.find((one) => one === process.argv[2])
if (how) process.send?.(await running(how), () => process.exit())
else {
  await measure()
  process.exit() // whatever an app has left behind
}
