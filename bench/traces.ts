/**
 * Measures what the trace of a run costs: the CPU of turns with three calls of a tool, with RUN_TRACE=on beside off, and
 * with the lines of requests and turns beside none. The apps stand in one process, and their rounds alternate.
 */
import { z } from 'zod'
import { definePlugin } from '../index.ts'
import { call, scriptedModel, testApp, type TestUser } from '../testing.ts'
import { median } from './support/target.ts'

const rounds = Number(process.argv[2] ?? 40)
const perRound = 20
const warmUp = 6

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

const script = Array.from({ length: (rounds + warmUp) * perRound }, () => [
  [1, 2, 3].map((n) => call('get_weather', { city: `city-${n}` })),
  'It is 21 degrees in each of the three cities that you have asked for.',
]).flat()

async function open(env: Record<string, string>): Promise<TestUser> {
  const app = await testApp({ plugins: [sky], model: scriptedModel(script), env })
  return app.user('a user who only exists for measuring')
}

/** The CPU milliseconds of one turn. */
async function cost(user: TestUser): Promise<number> {
  const { sessionId } = (await user.post('/sessions', {})).body as { sessionId: string }
  const before = process.cpuUsage()
  for (let n = 0; n < perRound; n++) await user.say('weather', { sessionId })
  const { user: own, system } = process.cpuUsage(before)
  return (own + system) / 1000 / perRound
}

const cases = {
  'RUN_TRACE=on': { RUN_TRACE: 'on', REQUEST_LOG: 'off' },
  'RUN_TRACE=off': { RUN_TRACE: 'off', REQUEST_LOG: 'off' },
  'lines of requests and turns': { RUN_TRACE: 'off', REQUEST_LOG: 'all' },
}
const users = await Promise.all(
  Object.entries(cases).map(async ([name, env]) => ({
    name,
    user: await open(env),
    costs: [] as number[],
  })),
)
for (let round = -warmUp; round < rounds; round++)
  for (const each of users) {
    const ms = await cost(each.user)
    if (round >= 0) each.costs.push(ms)
  }
const base = users[1]
for (const { name, costs } of users) {
  const ratios = costs.map((ms, at) => ms / (base?.costs[at] ?? ms))
  console.log(
    `${name.padEnd(28)} ${median(costs).toFixed(2)} ms CPU a turn, client and server; ${median(ratios).toFixed(3)} times RUN_TRACE=off`,
  )
}
process.exit(0)
