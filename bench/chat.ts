/**
 * Measures the user CPU of one streamed call of the chat client beside an older version of the client: by default the last one
 * that knew no other wire. `node --conditions=oracle-runtime-source bench/chat.ts <commit>` compares with another version. Each
 * version is a process of its own, the provider is a third one, and the versions alternate slice by slice.
 */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fakeProvider } from '#core/testing'
import type { ChatOrder } from './support/chat-client.ts'
import { checkout, here } from './support/checkout.ts'
import { mostRatio } from './support/against.ts'
import { median } from './support/target.ts'

const before = '95cab9007255d184ce3dbe850395cd11726db056'
const rounds = 15
const slices = 24
const perSlice = 24
const warmUp = 2000
const answer = Array.from({ length: 40 }, (_, nth) => ` word${nth}`)
const kinds = (['stream', 'streamTo'] as const).flatMap((way) =>
  [false, true].map((isNew) => ({ way, isNew })),
)
type Kind = (typeof kinds)[number]

async function serve(): Promise<void> {
  const provider = await fakeProvider({ key: 'bench-key', strict: false })
  provider.otherwise = () => ({ text: answer })
  setInterval(() => (provider.requests.length = 0), 1000)
  process.once('disconnect', () => process.exit())
  process.send?.(provider.url)
}

async function costOf(client: ChildProcess, order: ChatOrder): Promise<number> {
  client.send(order)
  const [cost] = (await once(client, 'message')) as [number]
  return cost
}

async function run(ref: string): Promise<void> {
  const old = checkout(ref)
  const children: ChildProcess[] = []
  const start = async (script: string, ...args: string[]) => {
    const profile = process.env.BENCH_PROFILE ? [`--cpu-prof-dir=${process.env.BENCH_PROFILE}`] : []
    const child = fork(script, args, {
      execArgv: [
        ...['--disable-warning=ExperimentalWarning', '--conditions=oracle-runtime-source'],
        ...(profile.length > 0 ? ['--cpu-prof', ...profile] : []),
      ],
    })
    children.push(child)
    const [said] = (await once(child, 'message')) as [unknown]
    return { child, said: String(said) }
  }
  try {
    const { said: url } = await start(import.meta.filename, 'serve')
    const client = join(import.meta.dirname, 'support/chat-client.ts')
    const { child: then } = await start(client, old.path, url)
    const { child: now } = await start(client, here, url)
    console.log(`one streamed call, ${old.commit.slice(0, 9)} beside the code here, user CPU`)
    for (const kind of kinds)
      for (const child of [then, now]) await costOf(child, { ...kind, times: warmUp })
    for (const kind of kinds) await compared(kind, then, now)
  } finally {
    for (const child of children) child.disconnect()
    await Promise.all(children.map((child) => child.exitCode ?? once(child, 'exit')))
    old.remove()
  }
}

async function compared(kind: Kind, then: ChildProcess, now: ChildProcess) {
  const costs = { then: [] as number[], now: [] as number[] }
  for (let round = 0; round < rounds; round++) {
    const cost = { then: 0, now: 0 }
    for (let slice = 0; slice < slices; slice++)
      for (const name of slice % 2 === 0 ? (['then', 'now'] as const) : (['now', 'then'] as const))
        cost[name] += await costOf(name === 'then' ? then : now, { ...kind, times: perSlice })
    costs.then.push(cost.then / slices)
    costs.now.push(cost.now / slices)
  }
  const ratio = median(costs.now.map((cost, nth) => cost / (costs.then[nth] ?? NaN)))
  const verdict = ratio <= mostRatio ? '' : `  more than ${mostRatio}`
  const what = `${kind.way}(), ${kind.isNew ? 'a new conversation' : 'the next words'}`
  const cost = `${median(costs.then).toFixed(0)} µs before, ${median(costs.now).toFixed(0)} µs now`
  console.log(`  ${what.padEnd(32)} ${cost}, ratio ${ratio.toFixed(3)}${verdict}`)
}

await (process.argv[2] === 'serve' ? serve() : run(process.argv[2] ?? before))
