/** What the plugin costs in a turn with three tool calls: CPU time of servers whose rounds alternate. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { markdownTable } from '../../cli/table.ts'
import { median } from '../support/target.ts'
import { allEnded, Server, start } from '../support/turn-client.ts'

const [warmUp, rounds, perRound] = [200, Number(process.env.BENCH_ROUNDS ?? 12), 60]
/**
 * Without the plugin, twice, which shows the noise; with it for people who were not asked yet, as the page has it and a server
 * that starts brings it; where it is off; and with memory on, for people of whom nothing or something is known.
 */
const kinds = ['none', 'none again', 'ask', 'off', 'on', 'on, 12 known'] as const
type Kind = (typeof kinds)[number]
const modeOf: Record<Kind, Record<string, string>> = {
  none: {},
  'none again': {},
  ask: { BENCH_MEMORY: 'ask' },
  off: { BENCH_MEMORY: 'off' },
  on: { BENCH_MEMORY: 'on' },
  'on, 12 known': { BENCH_MEMORY: 'on' },
}

/** Prints the cost of each kind beside the first one of the same round. */
export async function turns(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-memory-turns-'))
  try {
    const { port } = await start('endpoint.ts', [])
    const servers = new Map<Kind, Server>()
    for (const kind of kinds) {
      const args = [String(port), join(folder, kind), 'always', '10']
      const server = await Server.start('turn-server.ts', args, modeOf[kind])
      servers.set(kind, server)
      // They share a word with the question, so that they stand in the prompt.
      for (let i = 0; kind === 'on, 12 known' && i < 12; i++)
        await server.send('/memory', { text: `likes the weather of month ${i + 1}` })
      await server.cost(await server.sessions(warmUp))
    }
    const costs = Object.fromEntries(kinds.map((kind) => [kind, [] as number[]])) as Record<
      Kind,
      number[]
    >
    for (let round = 0; round < rounds; round++)
      for (let i = 0; i < kinds.length; i++) {
        const kind = kinds[(i + round) % kinds.length] ?? 'none'
        const server = servers.get(kind)
        if (server) costs[kind].push(await server.cost(await server.sessions(perRound)))
      }
    for (const server of servers.values()) server.stop()
    const rows = kinds.map((kind) => [
      kind,
      `${median(costs[kind]).toFixed(2)} ms`,
      median(costs[kind].map((cost, i) => cost / (costs.none[i] ?? cost))).toFixed(3),
      kind === 'ask' || kind === 'off' ? '1.05' : '',
    ])
    console.log(markdownTable(['a turn with three tools, memory', 'CPU', 'of none', 'goal'], rows))
  } finally {
    await allEnded()
    rmSync(folder, { recursive: true, force: true })
  }
}
