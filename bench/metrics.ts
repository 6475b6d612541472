/**
 * Measures what the metrics cost: what the metrics of one turn with three calls of a tool take, done again and again, beside the
 * CPU of such a turn; and the CPU of a start that loads and makes them, beside that of the whole start. Turns with and without
 * metrics in alternation tell less: what a busy machine does to a turn is a thousand times as much.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { z } from 'zod'
import { KernelMetrics } from '../core/runtime/telemetry/kernel-metrics.ts'
import { definePlugin } from '../index.ts'
import { call, scriptedModel, testApp } from '../testing.ts'
import { median } from './support/target.ts'

const rounds = Number(process.argv[2] ?? 20)
const perRound = 20
const warmUp = 6
const root = resolve(import.meta.dirname, '..')

const sky = definePlugin({
  name: 'sky',
  summary: 'Weather.',
  visibility: 'always',
  tools: {
    get_weather: {
      description: 'Weather in a city.',
      effect: 'read',
      foreign: false,
      input: z.object({ city: z.string() }),
      run: ({ city }) => ({ city, temp_c: 21 }),
    },
  },
})

const script = Array.from({ length: (rounds + warmUp) * (perRound + 1) + 1 }, () => [
  [1, 2, 3].map((n) => call('get_weather', { city: `city-${n}` })),
  'It is 21 degrees in each of the three cities that you have asked for.',
]).flat()

const counting = Object.getOwnPropertyDescriptors(KernelMetrics.prototype)
const env = { REQUEST_LOG: 'off', TURNS_PER_DAY: '1000000', RATE_LIMIT_PER_MINUTE: '1000000' }
const app = await testApp({ plugins: [sky], model: scriptedModel(script), env })
const user = await app.user('a user who only exists for measuring')

/** The CPU milliseconds of one turn, client and server. */
async function cost(): Promise<number> {
  const { sessionId } = (await user.post('/sessions', {})).body as { sessionId: string }
  await user.say('weather', { sessionId })
  const before = process.cpuUsage()
  for (let n = 0; n < perRound; n++) await user.say('weather', { sessionId })
  const { user: own, system } = process.cpuUsage(before)
  return (own + system) / 1000 / perRound
}

const costs: number[] = []
for (let round = -warmUp; round < rounds; round++) {
  const ms = await cost()
  if (round >= 0) costs.push(ms)
}

/** What a turn tells the metrics, in the order in which it does. */
const told: (() => unknown)[] = []
const noting = Object.fromEntries(
  Object.entries(counting).map(([name, own]) => {
    const { value } = own
    if (name === 'constructor' || typeof value !== 'function') return [name, own]
    const note = function (this: KernelMetrics, ...args: unknown[]) {
      told.push(() => value.apply(this, args))
      return value.apply(this, args)
    }
    return [name, { ...own, value: note }]
  }),
)
Object.defineProperties(KernelMetrics.prototype, noting)
const { sessionId } = (await user.post('/sessions', {})).body as { sessionId: string }
told.length = 0
await user.say('weather', { sessionId })
const ofTurn = [...told]
Object.defineProperties(KernelMetrics.prototype, counting)
const again = 3_000
const repeated = (): number => {
  const before = process.cpuUsage()
  for (let n = 0; n < again; n++) for (const tell of ofTurn) tell()
  const { user: own, system } = process.cpuUsage(before)
  return (own + system) / 1000 / again
}
repeated()
const alone = median(Array.from({ length: 9 }, repeated))
await app.close()
console.log(
  `${ofTurn.length} times a turn tells the metrics something, in ${(alone * 1000).toFixed(1)} µs of CPU; ` +
    `the turn takes ${median(costs).toFixed(2)} ms: ${((alone / median(costs)) * 100).toFixed(2)} % (goal: at most 2)`,
)

const data = mkdtempSync(join(tmpdir(), 'bench-metrics-'))
const cache = join(data, 'cache')

/** The CPU milliseconds that a process takes for this program. */
function processOf(program: string): number {
  // As the command line and npm start have it: what was loaded before comes from the cache of Node.
  const cached = `(await import('node:module')).enableCompileCache(${JSON.stringify(cache)})`
  const told = `${cached}\n${program}\nconsole.log(JSON.stringify(process.cpuUsage()))\nprocess.exit()`
  const flags = ['--disable-warning=ExperimentalWarning', '--conditions=oracle-runtime-source']
  const args = [...flags, '--input-type=module', '-e', told]
  const out = execFileSync(process.execPath, args, { cwd: root, encoding: 'utf8' })
  const { user: own, system } = JSON.parse(out.trim().split('\n').at(-1) ?? '')
  return (own + system) / 1000
}

const at = 'core/runtime/telemetry'
const programs = {
  // What a start needs in any case: errors, the version, and what strips the types of the first source of a process.
  nothing: `await import('./core/errors.ts')
    await import('./core/runtime/base/version.ts')`,
  metrics: `const { Registry } = await import('./${at}/registry.ts')
    const { KernelMetrics } = await import('./${at}/kernel-metrics.ts')
    const { ProcessMetrics } = await import('./${at}/process-metrics.ts')
    const registry = new Registry()
    new KernelMetrics(registry)
    new ProcessMetrics(registry).open()`,
  start: `const { createApp } = await import('./index.ts')
    const env = { DATA_DIR: ${JSON.stringify(join(data, 'data'))}, NODE_ENV: 'test' }
    const { port } = await createApp({ plugins: [], env, log: () => {} }).listen({ port: 0 })
    await fetch('http://127.0.0.1:' + port + '/health')`,
}
for (const program of Object.values(programs)) processOf(program) // fills the cache, and makes the tables
const starts = Array.from({ length: 9 }, () => ({
  metrics: processOf(programs.metrics) - processOf(programs.nothing),
  start: processOf(programs.start),
}))
rmSync(data, { recursive: true, force: true })
const [own, whole] = [
  median(starts.map(({ metrics }) => metrics)),
  median(starts.map(({ start }) => start)),
]
console.log(
  `${own.toFixed(1)} ms CPU to load and make the metrics, of ${whole.toFixed(0)} ms of a start: ` +
    `${((own / whole) * 100).toFixed(1)} % (goal: at most 2)`,
)
process.exit(0)
