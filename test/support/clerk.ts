import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, onTestFinished } from 'vitest'
import type { NewTurn, RunEnding } from '../../core/plugin.ts'
import { callsTo, type Calls } from '../../core/testing/calls.ts'
import { readEvents, type StreamedEvent } from '../../core/testing/turn.ts'
import { createWallet } from '../../core/testing/wallet.ts'
import { type Child, startChild } from './child.ts'
import type { ClerkNote, ClerkServerSettings } from './clerk-server.ts'
import type { Where } from './each-database.ts'
import { storeOf } from './store-of.ts'

/** How long a test waits at most for something that takes over or comes again: machines may be slow. */
export const patient = { timeout: 60_000, interval: 50 }

/** The end of a run, as the clerk wrote it down. */
export type ClerkEnd = Omit<RunEnding, 'reply' | 'startedAt' | 'endedAt'> & {
  readonly reply: string
}

/** A server of the office, in a process of its own. */
export interface ClerkServer extends Calls {
  readonly child: Child
  readonly url: string
  /** Has the plugin start a turn; resolves to what it began as. */
  start(
    turn: NewTurn,
  ): Promise<{ runId?: string; sessionId: string; requestId: string; state: string }>
  /** Says something as the user, and reads the turn's events to the end. */
  send(sessionId: string, message: string): Promise<{ runId: string; events: StreamedEvent[] }>
  /** Answers the question with which a run waits. */
  decide(
    runId: string,
    decision: string,
  ): Promise<{ status: number; text: string; events: StreamedEvent[] }>
  /** The headers of a request of the user. */
  headers(): Promise<Record<string, string>>
  kill(): Promise<void>
}

/** Servers of one database, the world outside of them, and one user. */
export async function openOffice(where: Where) {
  const outside = mkdtempSync(join(tmpdir(), 'clerk-'))
  onTestFinished(() => rmSync(outside, { recursive: true, force: true }))
  writeFileSync(join(outside, 'notes'), '')
  const dataDir = join(outside, 'data')
  const wallet = await createWallet()
  const running = new Set<Child>()
  onTestFinished(async () => {
    for (const child of running) await child.kill('SIGKILL')
  })

  async function serve(more: Partial<ClerkServerSettings> = {}): Promise<ClerkServer> {
    const { databaseUrl } = where
    const place = databaseUrl === undefined ? { dataDir } : { databaseUrl }
    const child = startChild('./clerk-server.ts', [JSON.stringify({ ...place, outside, ...more })])
    running.add(child)
    const [url = ''] = await child.printed(1)
    const { did } = (await (await fetch(`${url}/.well-known/oracle.json`)).json()) as {
      did: string
    }
    const credentials = () => wallet.headers(did)
    const post = async (path: string, body: unknown) =>
      fetch(url + path, {
        method: 'POST',
        headers: { ...(await credentials()), 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
    const calls = callsTo(() => url, credentials)
    return {
      ...calls,
      child,
      url,
      headers: credentials,
      async start(turn) {
        const { status, body } = await calls.post('/start', { turn })
        expect({ status, body }).toMatchObject({ status: 200 })
        return body
      },
      async send(sessionId, message) {
        const response = await post(`/messages/${sessionId}`, { message, approvals: true })
        return {
          runId: response.headers.get('x-run-id') ?? '',
          events: await readEvents(response),
        }
      },
      async decide(runId, decision) {
        const response = await post(`/runs/${runId}/resume`, { decision })
        const text = await response.text()
        return { status: response.status, text, events: await readEvents(text) }
      },
      async kill() {
        await child.kill('SIGKILL')
        running.delete(child)
      },
    }
  }

  const noted = (): ClerkNote[] =>
    readFileSync(join(outside, 'notes'), 'utf8')
      .split('\n')
      .filter((line) => line.endsWith('}'))
      .map((line) => JSON.parse(line))

  return {
    did: wallet.did,
    wallet,
    outside,
    serve,
    noted,
    /** The notes of one kind. */
    of: (what: ClerkNote['what']) => noted().filter((note) => note.what === what),
    /** Resolves once a note is there. */
    async until(isIt: (note: ClerkNote) => boolean): Promise<void> {
      await expect.poll(() => noted().some(isIt), patient).toBe(true)
    },
    /** Opens a gate behind which a model or a tool waits. */
    open: (gate: string) => writeFileSync(join(outside, gate), ''),
    /** Ends all servers in an orderly way. */
    async close() {
      for (const child of running) child.process.kill('SIGTERM')
      for (const child of running) expect(await child.ended()).toBe(0)
      running.clear()
    },
    /** Reads the database, on SQLite once no server runs any more. */
    async rows<Row>(query: string): Promise<Row[]> {
      const store = await storeOf(dataDir, where)
      try {
        return (await sql.raw<Row>(query).execute(store.db)).rows
      } finally {
        await store.close()
      }
    },
    /** The ends that the clerk wrote down for this user. */
    async ends(): Promise<ClerkEnd[]> {
      const rows = await this.rows<{ facts: string }>('select facts from clerk_ends')
      return rows
        .map(({ facts }): ClerkEnd => JSON.parse(facts))
        .filter(({ did }) => did === wallet.did)
    },
  }
}

/** Servers of one database, and the world outside of them. */
export type Office = Awaited<ReturnType<typeof openOffice>>
