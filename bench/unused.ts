import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { definePlugin } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { median } from './support/target.ts'

// Measures what the doors of other protocols and thirteen servers of MCP cost an app in which nobody uses them: the boot, the memory
// when nothing goes on, and the lines of the first prompt, beside an app without them. Each boot is a process of its own.
// The boot is compared with an app that has read the same files and uses none: Node takes the types off them with a program that it
// goes on compiling beside whatever follows, which is no part of the boot and is not there in the built package.
const rounds = 7
const goals = { loadMs: 0, bootMs: 10, heapMb: 3, lines: 13 }

interface Seen {
  /** What reading the files of the doors costs, in milliseconds of CPU: their types are taken off by Node, as in no built package. */
  readonly loadMs: number
  /** What the boot costs up to the answer of `/health`, in milliseconds of CPU. */
  readonly bootMs: number
  readonly heapMb: number
  readonly lines: number
}

const names = ['a2a', 'ag-ui', 'ai-sdk', 'mcp', 'openai-api']
const servers = Object.fromEntries(
  Array.from({ length: 13 }, (_, n) => [
    `server-${n}`,
    { command: 'false', oracle: { access: 'everyone' } },
  ]),
)

/** An app has capabilities of its own, and so the heading of their list. */
const own = definePlugin({
  name: 'own',
  summary: 'Has a tool.',
  visibility: 'on-demand',
  tools: { count: { description: 'Counts.', input: z.object({}), run: () => 1 } },
})

/** Whether an app has not read the files of the doors, has read them, or uses them. */
type How = 'without' | 'read' | 'with'

async function bootOnce(how: How): Promise<void> {
  const model = scriptedModel(['Hello.'])
  // What every app loads is there before the clock starts.
  await (await testApp({ plugins: [own], model })).close()
  const loading = process.cpuUsage()
  const doors = []
  if (how !== 'without')
    for (const name of names) doors.push((await import(`../plugins/${name}/index.ts`)).default)
  const loaded = process.cpuUsage(loading)
  const from = process.cpuUsage()
  const app = await testApp({
    plugins: how === 'with' ? [own, ...doors] : [own],
    model,
    env: {
      ORACLE_MNEMONIC: 'words of the bench of what nobody uses',
      ...(how === 'with' && { MCP_SERVERS: JSON.stringify({ mcpServers: servers }) }),
    },
  })
  await app.get('/health')
  const { user, system } = process.cpuUsage(from)
  await sleep(500)
  for (let n = 0; n < 4; n++) globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  await (await app.user()).say('Hi')
  const prompt = String(model.requests[0]?.messages[0]?.content)
  const seen: Seen = {
    loadMs: (loaded.user + loaded.system) / 1000,
    bootMs: (user + system) / 1000,
    heapMb: (heapUsed + external) / 1e6,
    lines: prompt.split('\n').length,
  }
  process.send?.(seen, () => process.exit())
}

async function boot(how: How): Promise<Seen> {
  const child = fork(import.meta.filename, [how], {
    execArgv: [...process.execArgv, '--expose-gc'],
  })
  const [seen] = (await once(child, 'message')) as [Seen]
  return seen
}

async function measure(): Promise<void> {
  const differences: Seen[] = []
  for (let round = 0; round < rounds; round++) {
    const [none, read, all] = [await boot('without'), await boot('read'), await boot('with')]
    differences.push({
      loadMs: all.loadMs - none.loadMs,
      bootMs: all.bootMs - read.bootMs,
      heapMb: all.heapMb - none.heapMb,
      lines: all.lines - none.lines,
    })
  }
  const words = {
    loadMs: 'ms of CPU to read their files',
    bootMs: 'ms of CPU at boot',
    heapMb: 'MB of heap',
    lines: 'lines of the prompt',
  }
  for (const key of ['loadMs', 'bootMs', 'heapMb', 'lines'] as const) {
    const more = median(differences.map((each) => each[key]))
    const goal = goals[key]
    const wanted = goal > 0 ? ` (goal: at most ${goal})` : ''
    console.log(`five doors and 13 servers, unused: ${more.toFixed(1)} ${words[key]} more${wanted}`)
    if (goal > 0 && more > goal && process.env.BENCH_GATE) process.exitCode = 1
  }
}

const [, , how] = process.argv
await (how === undefined ? measure() : bootOnce(how as How))
