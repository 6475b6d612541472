/** What the plugin costs in a turn with three tool calls: CPU time of servers whose rounds alternate. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { markdownTable } from '../../cli/table.ts'
import { median } from '../support/target.ts'
import { allEnded, Server, start } from '../support/turn-client.ts'

const [warmUp, rounds, perRound] = [200, Number(process.env.BENCH_ROUNDS ?? 12), 60]
/** Without the plugin, twice, which shows the noise; with it for people who were not asked yet; and with memory on. */
const kinds = ['off', 'off again', 'ask', 'on'] as const
type Kind = (typeof kinds)[number]
const modeOf: Record<Kind, Record<string, string>> = {
  off: {},
  'off again': {},
  ask: { BENCH_MEMORY: 'ask' },
  on: { BENCH_MEMORY: 'on' },
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
      await server.cost(await server.sessions(warmUp))
    }
    const costs: Record<Kind, number[]> = { off: [], 'off again': [], ask: [], on: [] }
    for (let round = 0; round < rounds; round++)
      for (let i = 0; i < kinds.length; i++) {
        const kind = kinds[(i + round) % kinds.length] ?? 'off'
        const server = servers.get(kind)
        if (server) costs[kind].push(await server.cost(await server.sessions(perRound)))
      }
    for (const server of servers.values()) server.stop()
    const rows = kinds.map((kind) => [
      kind,
      `${median(costs[kind]).toFixed(2)} ms`,
      median(costs[kind].map((cost, i) => cost / (costs.off[i] ?? cost))).toFixed(3),
      kind === 'ask' ? '1.05' : '',
    ])
    console.log(markdownTable(['a turn with three tools', 'CPU', 'of off', 'goal'], rows))
  } finally {
    await allEnded()
    rmSync(folder, { recursive: true, force: true })
  }
}
