import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { callerOf, type Caller } from '../support/caller.ts'
import { freePort } from '../support/cluster.ts'
import { freshDatabase } from '../support/database.ts'
import { openStream, readOn, type Seen, wordsOf } from '../support/event-stream.ts'
import { startHaproxy } from '../support/haproxy.ts'
import { startPooler } from '../support/pooler.ts'
import { startServer, type ServerProcess } from '../support/process.ts'
import { describeWith, urlOf } from '../support/services.ts'
import { slowness } from '../support/slowness.ts'

/** Forward and back again is one round; who runs the whole suite has the time for five. */
const rounds = Number(process.env.ROLL_ROUNDS ?? 1)
const chats = { talking: 200, paying: 20, signing: 5 }
/** Where the servers are one fleet: one mnemonic, and limits that count nobody out. */
const shared = {
  NODE_ENV: 'test',
  ORACLE_MNEMONIC: 'legal winner thank year wave sausage worth useful legal winner thank yellow',
  REQUEST_LOG: 'off',
  DRAIN_MS: '6000',
  RATE_LIMIT_PER_MINUTE: '1000000',
  CALLS_PER_MINUTE: '1000000',
  TURNS_AT_ONCE: '1000000',
  TURNS_AT_ONCE_TOTAL: '1000000',
  TURNS_PER_DAY: '1000000',
  STREAMS_PER_ADDRESS: '1000000',
}

/** How long things take on a machine that does nothing else: a word of a chat, and a lease. */
const usualMs = { PACE_MS: 1_000, RUN_LEASE_MS: 5_000 }
/** A machine that is slower than so many quiet ones is no place for this test. */
const slowest = 8

/** The same on this machine as it is now: where everything takes longer, 225 chats at the pace of a quiet one would be too many. */
async function times(): Promise<Record<string, string>> {
  const by = Math.min(slowest, Math.max(await slowness(), await slowness()))
  return Object.fromEntries(
    Object.entries(usualMs).map(([name, ms]) => [name, String(Math.round(ms * by))]),
  )
}

const said = Array.from({ length: 10 }, (_, n) => `word${n} `).join('')

/** Two servers behind a proxy that follows `/readyz`, and somebody who talks to them. */
class Fleet {
  readonly url: string
  readonly #env: Record<string, string>
  readonly #notes: string
  readonly #ports: readonly number[]
  readonly #servers: ServerProcess[] = []
  #caller: Caller | undefined

  private constructor(
    port: number,
    ports: readonly number[],
    env: Record<string, string>,
    notes: string,
  ) {
    this.url = `http://127.0.0.1:${port}`
    this.#ports = ports
    this.#env = env
    this.#notes = notes
  }

  static async open(env: Record<string, string>): Promise<Fleet> {
    const folder = mkdtempSync(join(tmpdir(), 'oracle-rolling-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const ports = [await freePort(), await freePort()]
    const port = await freePort()
    // Several failed checks in a row: on a busy machine the database is late for one or two, and no other server may be there.
    startHaproxy(
      `listen oracle
  mode http
  bind 127.0.0.1:${port}
  option httpchk GET /readyz
  option redispatch
  default-server inter 200ms fall 5 rise 1
${ports.map((own, i) => `  server oracle${i} 127.0.0.1:${own} check`).join('\n')}
`,
      onTestFinished,
    )
    const own = { ...(await times()), ...env, DATA_DIR: folder }
    const fleet = new Fleet(port, ports, own, join(folder, 'notes'))
    onTestFinished(() => fleet.close())
    for (const nth of ports.keys()) await fleet.start(nth, '1')
    fleet.#caller = await callerOf(fleet.url)
    const { 'x-ucan-delegation': raw } = await fleet.#caller.headers()
    expect(await fleet.ask('POST', '/delegation', { raw })).toBeDefined()
    return fleet
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.end('SIGKILL')))
  }

  /** Starts a server, and waits until the proxy leads requests to it. */
  async start(nth: number, generation: string): Promise<void> {
    const server = startServer('test/support/rolling-server.ts', {
      ...shared,
      ...this.#env,
      DATA_DIR: join(this.#env.DATA_DIR ?? '', String(nth)),
      PORT: String(this.#ports[nth]),
      GENERATION: generation,
      NOTES: this.#notes,
    })
    this.#servers[nth] = server
    await server.url
    for (;;) {
      const answer = await fetch(`${this.url}/generation`).catch(() => undefined)
      const { pid } = answer?.ok ? ((await answer.json()) as { pid: number }) : { pid: 0 }
      if (pid === server.pid) return
      await sleep(50)
    }
  }

  /** Replaces a server by one of another generation, as a roll-out does; resolves to what the one that left has printed. */
  async replace(nth: number, generation: string): Promise<string> {
    const old = this.#servers[nth]!
    expect(await old.end('SIGTERM')).toBe(0)
    await this.start(nth, generation)
    return this.#servers[nth]!.output()
  }

  async headers(): Promise<Record<string, string>> {
    const { authorization, 'x-auth-type': type } = await this.#caller!.headers()
    return { authorization, 'x-auth-type': type }
  }

  /** A request to the fleet, of which none may fail. */
  async ask(method: string, path: string, body?: object): Promise<any> {
    const response = await fetch(this.url + path, {
      method,
      headers: { ...(await this.headers()), ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return JSON.parse(text)
  }

  /** Says something, and reads its turn to the end, from one server after the other. */
  say(sessionId: string, message: string): Promise<{ runId: string; events: Seen[] }> {
    return this.#turn(`/messages/${sessionId}`, { message, approvals: true })
  }

  /** Approves what a run waits with, and reads the rest of its turn. */
  approve(runId: string): Promise<{ runId: string; events: Seen[] }> {
    return this.#turn(`/runs/${runId}/resume`, { decision: 'approve' })
  }

  async #turn(path: string, body: object) {
    const turn = await openStream(this.url + path, await this.headers(), body)
    if (turn.status !== 200)
      throw new Error(`${path} was answered with ${turn.status}: ${await turn.text()}`)
    const runId = turn.headers.get('x-run-id') ?? ''
    const open = async (after: number) =>
      openStream(`${this.url}/runs/${runId}?after=${after}`, await this.headers())
    return { runId, events: await readOn(open, await turn.rest()) }
  }

  /** What happened in the world outside, a line each. */
  happened(what: string): string[] {
    if (!existsSync(this.#notes)) return []
    const lines = readFileSync(this.#notes, 'utf8').trim().split('\n')
    return lines
      .filter((line) => line.startsWith(`${what} `))
      .map((line) => line.slice(what.length + 1))
  }
}

function expectWhole(events: readonly Seen[], status: string): void {
  const ids = events.flatMap(({ id }) => (id === undefined ? [] : [id]))
  expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b))
  expect(events.at(-1)?.data.status).toBe(status)
  expect(events.filter(({ event }) => event === 'done')).toHaveLength(1)
}

/** Rolls a fleet forward and back under load, and holds everything against what was promised. */
async function rollUnderLoad(env: Record<string, string>): Promise<void> {
  const fleet = await Fleet.open(env)
  let isOver = false
  const paid: string[] = []
  const worked: string[] = []
  const session = async (): Promise<string> => (await fleet.ask('POST', '/sessions', {})).sessionId
  const chat = async (verb: string, nth: number) => {
    const sessionId = await session()
    for (let turn = 0; !isOver; turn++) {
      const id = `${nth}-${turn}`
      const { events } = await fleet.say(sessionId, `${verb} ${id}`)
      expectWhole(events, 'finished')
      expect(wordsOf(events)).toBe(said)
      if (verb === 'Pay') paid.push(id)
    }
  }
  const askForWork = async () => {
    for (let n = 0; !isOver; n++) {
      await fleet.ask('POST', '/work', { n })
      worked.push(String(n))
      await sleep(1_000)
    }
  }
  const load = [
    ...Array.from({ length: chats.talking }, (_, nth) => chat('Talk', nth)),
    ...Array.from({ length: chats.paying }, (_, nth) => chat('Pay', nth)),
    askForWork(),
  ]
  // A fault ends the load of the others, too.
  const faults: unknown[] = []
  const all = Promise.all(load.map((each) => each.catch((fault) => void faults.push(fault))))
  const signed: string[] = []
  for (let round = 0; round < rounds && faults.length === 0; round++) {
    const waiting = await Promise.all(
      Array.from({ length: chats.signing }, async (_, nth) => {
        const id = `${round}-${nth}`
        const { runId, events } = await fleet.say(await session(), `Sign ${id}`)
        expectWhole(events, 'waiting')
        return { id, runId }
      }),
    )
    for (const generation of ['2', '1'])
      for (const nth of [0, 1]) {
        const printed = await fleet.replace(nth, generation)
        // The first generation meets what the second has added, and says so.
        if (generation === '1') expect(printed).toContain('002-added')
      }
    expect(fleet.happened('signed').sort()).toEqual(signed.sort())
    await Promise.all(
      waiting.map(async ({ id, runId }) => {
        const { events } = await fleet.approve(runId)
        expectWhole(events, 'finished')
        expect(wordsOf(events)).toBe(said)
        signed.push(id)
      }),
    )
  }
  isOver = true
  await all
  expect(faults).toEqual([])
  expect(fleet.happened('signed').sort()).toEqual(signed.sort())
  // Each write once, and none without its turn.
  expect(fleet.happened('paid').sort()).toEqual(paid.sort())
  const asked = new Set(worked)
  while (new Set(fleet.happened('worked')).size < asked.size) await sleep(50)
  expect(new Set(fleet.happened('worked'))).toEqual(asked)
}

const postgres = await urlOf('postgres')

await describeWith('haproxy', 'a fleet that is rolled forward and back', () => {
  const database = async () => {
    const { url, drop } = await freshDatabase(postgres ?? '')
    onTestFinished(() => drop())
    return url
  }

  if (postgres)
    it('fails no request, tells every event once and in order, writes nothing twice and loses no job', async () => {
      await rollUnderLoad({ DATABASE_URL: await database() })
    }, 900_000)

  if (postgres)
    it('does so behind a transaction pooler with DATABASE_LISTEN_URL', async () => {
      const direct = await database()
      const pooler = await startPooler(direct)
      onTestFinished(() => pooler.close())
      await rollUnderLoad({ DATABASE_URL: pooler.url, DATABASE_LISTEN_URL: direct })
    }, 900_000)
})
