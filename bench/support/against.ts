import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createWallet, type Wallet } from '../../core/testing/wallet.ts'
import { checkout, here } from './checkout.ts'
import { drive, median } from './target.ts'

/** The options of a comparison. */
export interface Comparison {
  /** The version to compare with: a commit, a branch or a tag. */
  readonly ref: string
  readonly rounds: number
  readonly print: (line: string) => void
}

/** The largest ratio of the new cost to the old one at which the gate passes. */
export const mostRatio = 1.05
/** After how many minutes the comparison stops, even if a process hangs. */
const mostMinutes = 20

/** The number of requests or turns in one slice of a round. */
const perSlice = { route: 2000, 'authenticated route': 2000, turn: 5 }
/** How many slices a round has. The versions alternate slice by slice, so that changes of the machine's speed hit both. */
const slices = 8
/** How often a pair of processes does each kind before it is measured: the first requests also pay for their compilation. */
const warmUps = 10
type Kind = keyof typeof perSlice
const kinds = Object.keys(perSlice) as Kind[]
type Ratios = Record<Kind, number>
interface Cost {
  readonly before: number
  readonly after: number
}

/**
 * Runs the code of this folder beside that of another version, in rounds that alternate, and prints the server CPU of
 * each with the median of the rounds' ratios. Resolves to these ratios. The other version is checked out into a folder
 * of its own, with the packages that are installed here, and removed afterwards.
 */
export async function compare({ ref, rounds, print }: Comparison): Promise<Ratios> {
  const { path: old, commit, folder, remove } = checkout(ref)
  const children: ChildProcess[] = []
  const end = () => {
    for (const child of children.splice(0)) child.kill('SIGKILL')
  }
  const late = setTimeout(() => {
    end()
    remove()
    print(`stopped: the comparison took more than ${mostMinutes} minutes`)
    process.exit(1)
  }, mostMinutes * 60_000)
  try {
    print(`${rounds} rounds, ${commit.slice(0, 9)} beside the code here, server CPU`)
    const taken: Record<Kind, Cost>[] = []
    for (let round = 0; round < rounds; round++) {
      taken.push(await costOfPair(children, [old, here], join(folder, String(round))))
      end()
    }
    const ratios = {} as Ratios
    for (const kind of kinds) {
      const costs = taken.map((each) => each[kind])
      ratios[kind] = printed(kind, costs, print)
    }
    return ratios
  } finally {
    clearTimeout(late)
    end()
    remove()
  }
}

/**
 * What each kind costs a pair of new processes. Every round has a pair of its own: how V8 compiles a server is decided anew in
 * each process, and two processes of the same code may differ by a fifth.
 */
async function costOfPair(
  children: ChildProcess[],
  [old, now]: readonly [string, string],
  folder: string,
): Promise<Record<Kind, Cost>> {
  const endpoint = await start(children, 'endpoint.ts', [])
  const wallet = await createWallet('a user who only exists for measuring')
  const version = (path: string, name: string) =>
    Version.start(children, path, join(folder, name), String(endpoint.port), wallet)
  const before = await version(old, 'old-data')
  const after = await version(now, 'new-data')
  for (let round = 0; round < warmUps; round++)
    for (const kind of kinds) await roundOf(kind, before, after)
  const costs = {} as Record<Kind, Cost>
  for (const kind of kinds) costs[kind] = await roundOf(kind, before, after)
  return costs
}

/** Prints the medians of a kind, and gives that of the ratios. */
function printed(kind: Kind, costs: readonly Cost[], print: (line: string) => void): number {
  const ratios = costs.map(({ before, after }) => after / before).sort((a, b) => a - b)
  const ratio = median(ratios)
  const cost = (of: keyof Cost) =>
    `${median(costs.map((each) => each[of]))
      .toFixed(1)
      .padStart(8)} µs`
  const spread = `${ratios[0]?.toFixed(3)} to ${ratios.at(-1)?.toFixed(3)}`
  print(
    `${kind.padEnd(20)} ${cost('before')} before ${cost('after')} now  ratio ${ratio.toFixed(3)} (${spread})`,
  )
  return ratio
}

/** Microseconds of server CPU for one request or turn of each version, in slices that alternate. */
async function roundOf(kind: Kind, before: Version, after: Version): Promise<Cost> {
  const cost = { before: 0, after: 0 }
  // Each round has a new session, so that every round has the same amount of history.
  const sessions = kind === 'turn' && { before: await before.begin(), after: await after.begin() }
  for (let slice = 0; slice < slices; slice++)
    for (const name of slice % 2 === 0
      ? (['before', 'after'] as const)
      : (['after', 'before'] as const))
      cost[name] += await (name === 'before' ? before : after).slice(
        kind,
        sessions ? sessions[name] : '',
      )
  const times = slices * perSlice[kind]
  return { before: cost.before / times, after: cost.after / times }
}

async function start(children: ChildProcess[], script: string, args: readonly string[]) {
  const child = fork(join(import.meta.dirname, script), [...args], {
    execArgv: ['--disable-warning=ExperimentalWarning', '--conditions=oracle-runtime-source'],
  })
  children.push(child)
  const gone = once(child, 'exit').then(() => Promise.reject(new Error(`${script} ended at once`)))
  const [{ port }] = (await Promise.race([once(child, 'message'), gone])) as [{ port: number }]
  gone.catch(() => undefined) // after the start a later message to the child fails if it has exited
  return { child, port }
}

/** One version of the runtime in a process of its own. */
class Version {
  readonly #child: ChildProcess
  readonly #url: string
  readonly #port: number
  readonly #credentials: Record<string, string>

  private constructor(child: ChildProcess, port: number, credentials: Record<string, string>) {
    this.#child = child
    this.#port = port
    this.#url = `http://127.0.0.1:${port}`
    this.#credentials = credentials
  }

  static async start(
    children: ChildProcess[],
    path: string,
    dataDir: string,
    endpoint: string,
    wallet: Wallet,
  ): Promise<Version> {
    const { child, port } = await start(children, 'compared-server.ts', [path, dataDir, endpoint])
    const url = `http://127.0.0.1:${port}`
    const card = (await (await fetch(`${url}/.well-known/oracle.json`)).json()) as { did: string }
    const invocation = await wallet.invoke({ audience: card.did, lifetime: 890 })
    const credentials = { authorization: `Bearer ${invocation.text}`, 'x-auth-type': 'ucan' }
    return new Version(child, port, credentials)
  }

  /** Microseconds of server CPU for one slice of a round. */
  async slice(kind: Kind, session: string): Promise<number> {
    const before = await this.#cpu()
    if (kind === 'turn') for (let n = 0; n < perSlice.turn; n++) await this.#turn(session)
    else await this.#requests(kind)
    return (await this.#cpu()) - before
  }

  async #cpu(): Promise<number> {
    this.#child.send('cpu')
    const [{ cpu }] = (await once(this.#child, 'message')) as [{ cpu: number }]
    return cpu
  }

  async #requests(kind: 'route' | 'authenticated route'): Promise<void> {
    const connections = 8
    const headers = Object.entries(kind === 'route' ? {} : this.#credentials).map(
      ([name, value]) => `${name}: ${value}\r\n`,
    )
    const path = kind === 'route' ? '/open' : '/locked'
    const request = `GET ${path}?city=Lusaka HTTP/1.1\r\nHost: localhost\r\n${headers.join('')}\r\n`
    await Promise.all(
      Array.from({ length: connections }, () =>
        drive(this.#port, request, perSlice[kind] / connections),
      ),
    )
  }

  async begin(): Promise<string> {
    const headers = this.#credentials
    const made = await fetch(`${this.#url}/sessions`, { method: 'POST', headers })
    return ((await made.json()) as { sessionId: string }).sessionId
  }

  /** Sends a message whose turn has three tool calls, and reads the turn to its end. */
  async #turn(session: string): Promise<void> {
    const answer = await fetch(`${this.#url}/messages/${session}`, {
      method: 'POST',
      headers: { ...this.#credentials, 'content-type': 'application/json' },
      body: JSON.stringify({ message: 'weather' }),
    })
    const text = await answer.text()
    if (!text.includes('event: done')) throw new Error(`A turn broke off: ${text.slice(-300)}`)
  }
}
