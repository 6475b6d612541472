import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { callsTo, type Calls } from '../../core/testing/calls.ts'
import { createWallet } from '../../core/testing/wallet.ts'
import { readEvents, say, type Said, type SayOptions } from '../../core/testing/turn.ts'
import { fakeProvider } from '#core/testing'
import {
  dialects,
  envOf,
  keepOne,
  noteThree,
  openDialects,
  sdkPackages,
  signaturesAt,
  thoughtOf,
  type Spoken,
} from '../support/dialects.ts'
import { onEachDatabase, type Where } from '../support/each-database.ts'
import { root, startServer, type ServerProcess } from '../support/process.ts'
import { plainSocket, tokensOf } from '../support/sockets.ts'
import { storeOf } from '../support/store-of.ts'

const mnemonic = 'legal winner thank year wave sausage worth useful legal winner thank yellow'
const patient = { timeout: 120_000, interval: 50 }
const anHour = 3_600_000

/** A server in a process of its own, and the user's way to it. */
interface Served extends Calls {
  readonly url: string
  readonly process: ServerProcess
  say(message: string, options?: SayOptions): Promise<Said>
}

/** Servers with these models, one after the other or side by side, and one user. */
async function openWorld(where: Where, env: Record<string, string>) {
  const folder = mkdtempSync(join(tmpdir(), 'carried-'))
  const running: ServerProcess[] = []
  onTestFinished(async () => {
    await Promise.all(running.map((server) => server.end('SIGKILL')))
    rmSync(folder, { recursive: true, force: true })
  })
  // Packages of the AI SDK are those of the folder that a server works in.
  for (const [name, installed] of Object.entries(sdkPackages)) {
    const place = join(folder, 'node_modules', name)
    mkdirSync(dirname(place), { recursive: true })
    symlinkSync(join(root, 'node_modules', installed), place)
  }
  const wallet = await createWallet()
  const marks = join(folder, 'marks')
  const dataDir = join(folder, 'data')
  let oracle = ''
  return {
    wallet,
    headers: () => wallet.headers(oracle),
    /** What the tools did: a line each. */
    marks: () => (existsSync(marks) ? readFileSync(marks, 'utf8').trim().split('\n') : []),
    /** What all servers logged. */
    logged: () => running.map((server) => server.output()).join('\n'),
    oracle: () => oracle,
    async serve(more: Record<string, string> = {}): Promise<Served> {
      const variables = {
        ...env,
        MARKS: marks,
        LOG_LEVEL: 'trace',
        ORACLE_MNEMONIC: mnemonic,
        RUN_LEASE_MS: '2000',
        TURNS_AT_ONCE: '1000',
        RATE_LIMIT_PER_MINUTE: '100000',
        CALLS_PER_MINUTE: '100000',
        DATA_DIR: where.databaseUrl ? join(folder, `own-${running.length}`) : dataDir,
        ...(where.databaseUrl && { DATABASE_URL: where.databaseUrl }),
        ...more,
      }
      const server = startServer('test/support/loop-server.ts', variables, folder)
      running.push(server)
      const url = await server.url
      oracle ||= ((await (await fetch(`${url}/.well-known/oracle.json`)).json()) as any).did // any: the card of the oracle
      const credentials = () => wallet.headers(oracle)
      const calls = callsTo(() => url, credentials)
      // What a run may do that is taken over rests on what its user has left with the oracle.
      const { text: raw } = await wallet.delegate({ audience: oracle })
      expect((await calls.post('/delegation', { raw })).status).toBe(200)
      return {
        ...calls,
        url,
        process: server,
        say: (message, options) => say(url, credentials, message, options),
      }
    },
    /** Moves everything that runs say of time an hour back. */
    async letAnHourPass() {
      const store = await storeOf(dataDir, where)
      await sql`update kernel_runs set created_at = created_at - ${anHour},
        ended_at = ended_at - ${anHour}`.execute(store.db)
      await store.close()
    },
  }
}

type World = Awaited<ReturnType<typeof openWorld>>

/** A conversation with the models of one dialect. */
interface Talk {
  readonly spoken: Spoken
  readonly sessionId: string
  /** What anybody could read of it. */
  readonly seen: unknown[]
}

/** The turn is whole: its provider refused nothing, and has nothing left to say. */
function expectWhole({ spoken: { dialect, provider } }: Talk, events: Said['events']): void {
  expect(provider.refusals, dialect.name).toEqual([])
  expect(provider.remaining, dialect.name).toBe(0)
  const end = events.findLast(({ event }) => event === 'done')?.data
  expect({ of: dialect.name, status: end?.status }).toEqual({
    of: dialect.name,
    status: 'finished',
  })
}

/** One turn of three calls in every conversation at once. */
const turns = (server: Served, talks: readonly Talk[], model: (talk: Talk) => string | undefined) =>
  Promise.all(
    talks.map(async (talk) => {
      const body = { model: model(talk) }
      const said = await server.say('Note it', { sessionId: talk.sessionId, body })
      talk.seen.push(said.events)
      return said
    }),
  )

const own = ({ spoken }: Talk) => spoken.dialect.id

/** A turn in every conversation whose server is killed while the tools of the second step run; another one ends it. */
async function killedInTools(
  world: World,
  first: Served,
  talks: readonly Talk[],
  next: () => Promise<Served>,
): Promise<Served> {
  const credentials = { ...(await world.headers()), 'content-type': 'application/json' }
  const runs = await Promise.all(
    talks.map(async (talk) => {
      noteThree(talk.spoken)
      const answer = await fetch(`${first.url}/messages/${talk.sessionId}`, {
        method: 'POST',
        headers: credentials,
        body: JSON.stringify({ message: 'Note it again' }),
      })
      // The server dies in the middle of the stream.
      const events = readEvents(answer).catch(() => [])
      return { talk, runId: answer.headers.get('x-run-id') ?? '', events }
    }),
  )
  const held = ({ sessionId }: Talk) => world.marks().includes(`held ${sessionId}`)
  await expect.poll(() => talks.filter((talk) => !held(talk)), patient).toEqual([])
  await first.process.end('SIGKILL')
  const second = await next()
  await Promise.all(
    runs.map(async ({ talk, runId, events }) => {
      const { body } = await second.get(`/runs/${runId}`)
      const all = await readEvents(String(body))
      talk.seen.push(await events, all)
      expectWhole(talk, all)
    }),
  )
  return second
}

/** A turn in every conversation that asks a person, who answers an hour later at another server. */
async function answeredLater(world: World, first: Served, talks: readonly Talk[]): Promise<Served> {
  const waiting = await Promise.all(
    talks.map(async (talk) => {
      keepOne(talk.spoken)
      const said = await first.say('Keep it', { sessionId: talk.sessionId, approvals: true })
      expect({ of: own(talk), status: said.status }).toEqual({ of: own(talk), status: 'waiting' })
      talk.seen.push(said.events)
      return { talk, runId: said.runId }
    }),
  )
  await first.process.end('SIGKILL')
  await world.letAnHourPass()
  const second = await world.serve()
  await Promise.all(
    waiting.map(async ({ talk, runId }) => {
      const { status, body } = await second.post(`/runs/${runId}/resume`, { decision: 'approve' })
      expect(status).toBe(200)
      const events = await readEvents(String(body))
      talk.seen.push(events)
      expectWhole(talk, events)
    }),
  )
  expect(world.marks().filter((mark) => mark === 'keep gold')).toHaveLength(talks.length)
  return second
}

async function talksAt(server: Served, all: readonly Spoken[]): Promise<Talk[]> {
  return Promise.all(
    all.map(async (spoken) => {
      const { sessionId } = (await server.post('/sessions', {})).body
      return { spoken, sessionId, seen: [] }
    }),
  )
}

/** A first turn without tools in every conversation, which chooses its model. */
async function sayHello(server: Served, talks: readonly Talk[]): Promise<void> {
  for (const { spoken } of talks) spoken.provider.answer('Hello.')
  const said = await turns(server, talks, own)
  for (const [at, talk] of talks.entries()) expectWhole(talk, said[at]!.events)
}

/** One ordinary turn in every conversation, with the model that is its own. */
async function ordinary(server: Served, talks: readonly Talk[]): Promise<void> {
  for (const { spoken } of talks) noteThree(spoken)
  const said = await turns(server, talks, own)
  for (const [at, talk] of talks.entries()) expectWhole(talk, said[at]!.events)
}

/** What everybody may read of all conversations, and what only operators read. */
async function readable(world: World, server: Served, talks: readonly Talk[]): Promise<string> {
  const pages = await Promise.all(
    talks.flatMap(({ sessionId }) => [
      server.get(`/messages/${sessionId}`),
      server.get(`/sessions/${sessionId}/messages`),
    ]),
  )
  const lists = [await server.get('/sessions'), await server.get('/models')]
  const seen = talks.map((talk) => talk.seen)
  return JSON.stringify([seen, [...pages, ...lists].map(({ body }) => body), world.logged()])
}

await onEachDatabase('turns of three calls with tools', (where) => {
  const isShared = where.databaseUrl !== undefined

  test(
    'finish on every wire: at once, after kill -9 between call and result, after an approval an hour later',
    { timeout: 300_000 },
    async () => {
      const all = await openDialects()
      onTestFinished(async () => void (await Promise.all(all.map((one) => one.provider.close()))))
      const world = await openWorld(where, envOf(all))
      const first = await world.serve({ HOLDS: 'green' })
      const talks = await talksAt(first, all)
      const tokens = await tokensOf(world, world.oracle())
      const sockets = await Promise.all(
        talks.map(({ sessionId }) => plainSocket(first.url, sessionId, tokens)),
      )
      // The first server holds the second step of a turn, so its own turn ends at the first.
      await sayHello(first, talks)
      // On PostgreSQL another server is there all the time; on SQLite the same one starts again.
      const spare = isShared ? await world.serve() : undefined
      const second = await killedInTools(world, first, talks, async () => spare ?? world.serve())
      const third = await answeredLater(world, second, talks)
      await ordinary(third, talks)

      const heard = sockets.flatMap((socket) => socket.heard)
      const text = (await readable(world, third, talks)) + heard.join('\n')
      for (const { spoken } of talks) {
        for (const signature of signaturesAt(spoken)) expect(text).not.toContain(signature)
        expect(text).not.toContain(spoken.provider.key)
      }
      expect(heard.length).toBeGreaterThan(talks.length)
    },
  )

  test(
    'go on with another provider in the next turn and back, and no provider gets what another one gave',
    { timeout: 300_000 },
    async () => {
      const all = await openDialects()
      onTestFinished(async () => void (await Promise.all(all.map((one) => one.provider.close()))))
      const world = await openWorld(where, envOf(all))
      const server = await world.serve()
      const talks = await talksAt(server, all)
      await ordinary(server, talks)
      for (const step of [1, 3]) {
        // Each conversation goes to the next provider, and each provider gets one conversation.
        const others = talks.map((_, at) => talks[(at + step) % talks.length]!.spoken)
        for (const spoken of others) noteThree(spoken)
        const said = await turns(server, talks, (talk) => others[talks.indexOf(talk)]?.dialect.id)
        for (const [at, talk] of talks.entries()) {
          const moved = { ...talk, spoken: others[at]! }
          expectWhole(moved, said[at]!.events)
        }
        await ordinary(server, talks)
      }
      const text = await readable(world, server, talks)
      for (const { spoken } of talks) {
        const signatures = signaturesAt(spoken)
        const aloud = spoken.dialect.rules?.chat === 'reasoning_content'
        expect({ of: spoken.dialect.name, isSealed: signatures.length > 0 }).toEqual({
          of: spoken.dialect.name,
          isSealed: !aloud,
        })
        for (const { spoken: other } of talks)
          if (other !== spoken)
            for (const { text: sent } of other.provider.requests) {
              expect(sent).not.toContain(thoughtOf(spoken.dialect))
              for (const signature of signatures) expect(sent).not.toContain(signature)
            }
        for (const signature of signatures) expect(text).not.toContain(signature)
        expect(text).not.toContain(spoken.provider.key)
        expect(world.logged()).not.toContain(thoughtOf(spoken.dialect))
      }
    },
  )

  test('finish with ChatAnthropic of LangChain just so', { timeout: 300_000 }, async () => {
    const dialect = dialects[0]!
    const provider = await fakeProvider()
    onTestFinished(() => provider.close())
    const world = await openWorld(where, {
      LANGCHAIN_URL: provider.url,
      LANGCHAIN_KEY: provider.key,
    })
    const first = await world.serve({ HOLDS: 'green' })
    const talks = await talksAt(first, [{ dialect, provider }])
    const spare = isShared ? await world.serve() : undefined
    const second = await killedInTools(world, first, talks, async () => spare ?? world.serve())
    const third = await answeredLater(world, second, talks)
    const [talk] = talks
    noteThree(talk!.spoken)
    const said = await third.say('And now', { sessionId: talk!.sessionId })
    talk!.seen.push(said.events)
    expectWhole(talk!, said.events)
    const text = await readable(world, third, talks)
    expect(signaturesAt(talk!.spoken).length).toBeGreaterThan(0)
    for (const signature of signaturesAt(talk!.spoken)) expect(text).not.toContain(signature)
    expect(text).not.toContain(provider.key)
  })
})
