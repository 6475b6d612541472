import { median } from './target.ts'
import type { Server } from './turn-client.ts'

type Measure = (server: Server) => Promise<number>

/** Runs a measure on all servers, round by round and in turns, and gives the median of each. */
export async function alternating<Name extends string>(
  servers: ReadonlyMap<Name, Server>,
  measure: Measure,
  rounds: number,
): Promise<Map<Name, number>> {
  const all = new Map<Name, number[]>([...servers.keys()].map((name) => [name, []]))
  const names = [...servers]
  for (let round = 0; round < rounds; round++)
    for (const [name, server] of round % 2 === 0 ? names : names.toReversed())
      all.get(name)?.push(await measure(server))
  return new Map([...all].map(([name, figures]) => [name, median(figures)]))
}

/** The server's CPU for one of `count`, in milliseconds. */
export async function cpuOf(
  server: Server,
  count: number,
  work: () => Promise<unknown>,
): Promise<number> {
  const { cpu } = await server.usage('gc')
  await work()
  return ((await server.usage()).cpu - cpu) / 1000 / count
}

/** The CPU of a turn with three calls of a tool, one client, in sessions that grow to eight turns. */
export const turnCpu: Measure = async (server) => server.cost(await server.sessions(5), 8)

/** The CPU of `POST /sessions`, for clients that each ask for one after the other. */
export const sessionCpu =
  (clients: number): Measure =>
  (server) => {
    const count = 200
    const client = () => server.sessions(count)
    return cpuOf(server, count * clients, () =>
      Promise.all(Array.from({ length: clients }, client)),
    )
  }

/** The milliseconds until the first word of an answer, in new sessions, by a model that answers at once. */
export const firstWord: Measure = async (server) => {
  const times: number[] = []
  for (const session of await server.sessions(40))
    times.push((await server.turn(session, 'talk 3 5')).firstMs)
  return median(times)
}
