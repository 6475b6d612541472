import { randomUUID } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { RuntimeError } from '#core'
import { type Child, killChildren, startChild } from '../support/child.ts'
import { freshDatabase } from '../support/database.ts'
import { openStream, type Seen } from '../support/event-stream.ts'
import type { ServerSettings } from '../support/run-server.ts'
import { fakeUser, replica, someone } from '../support/replica.ts'
import { describeWith } from '../support/services.ts'
import { givenUpNotice, quarantinedNotice } from '../support/notices.ts'

afterEach(killChildren)

const headers = { Authorization: `Bearer ${someone}` }

/** Servers that a supervisor starts again when they die, with one database and one list of deaths. */
class World {
  readonly folder = mkdtempSync(join(tmpdir(), 'quarantine-'))
  readonly #settings: ServerSettings
  readonly #servers: { child: Child; url: string }[] = []
  #supervising = true

  constructor(databaseUrl: string | undefined) {
    const where = databaseUrl ? { databaseUrl } : { dataDir: join(this.folder, 'data') }
    this.#settings = {
      ...where,
      leaseMs: 1_500,
      obedient: true,
      payments: join(this.folder, 'cured'),
    }
    onTestFinished(() => {
      this.#supervising = false
      killChildren()
      rmSync(this.folder, { recursive: true, force: true })
    })
  }

  get deaths(): string[] {
    const path = join(this.folder, 'cured-deaths')
    return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : []
  }

  /** From now on the poisonous message is harmless. */
  cure(): void {
    writeFileSync(join(this.folder, 'cured'), '')
  }

  async start(count = 1): Promise<void> {
    for (let i = 0; i < count; i++) await this.#keepUp(i)
  }

  /** The signal that ends a server without a supervisor that would start it again. */
  async end(i: number, signal: NodeJS.Signals): Promise<void> {
    this.#supervising = false
    await this.#servers[i]?.child.kill(signal)
    this.#supervising = true
  }

  async #keepUp(i: number): Promise<void> {
    while (this.#supervising) {
      const child = startChild('./run-server.ts', [JSON.stringify(this.#settings)])
      try {
        const [url = ''] = await child.printed(1)
        this.#servers[i] = { child, url }
        void child.ended().then(
          () => this.#keepUp(i),
          () => this.#keepUp(i),
        )
        return
      } catch {
        // It died while it booted, of what it took over.
      }
    }
  }

  /** At any server that answers, as a client behind a load balancer. */
  async call(method: string, path: string, body?: unknown, more = {}, at = 0) {
    for (let tries = 0; ; tries++)
      try {
        const response = await fetch(this.#servers[at]!.url + path, {
          method,
          headers: { ...headers, 'Content-Type': 'application/json', ...more },
          body: body === undefined ? undefined : JSON.stringify(body),
        })
        // any: a test states what it expects of it
        return { status: response.status, body: (await response.json()) as any }
      } catch (error) {
        if (tries > 200) throw error
        await sleep(50)
      }
  }

  async session(at = 0): Promise<string> {
    return (await this.call('POST', '/sessions', undefined, {}, at)).body.sessionId
  }

  /** Sends a message and reads its run to the end, through every death of the server. */
  async turn(sessionId: string, message: string, at = 0): Promise<Seen[]> {
    const requestId = randomUUID()
    const seen: Seen[] = []
    for (let tries = 0; seen.at(-1)?.event !== 'done'; tries++) {
      if (tries > 300) throw new Error(`No end of "${message}" after ${JSON.stringify(seen)}`)
      try {
        const path = `/messages/${sessionId}`
        const stream = seen[0]
          ? await openStream(
              `${this.#servers[at]!.url}/runs/${seen[0].data.runId}?after=${seen.at(-1)!.id}`,
              headers,
            )
          : await openStream(this.#servers[at]!.url + path, headers, { message, requestId })
        for (let event = await stream.next(); event; event = await stream.next())
          if (event.id !== undefined) seen.push(event)
      } catch {
        await sleep(50)
      }
    }
    return seen
  }
}

/** What every database does alike. */
function behavesAlike(where: () => Promise<World>) {
  test('the run that kills its process is set aside after the second death, and the others finish', async () => {
    const world = await where()
    await world.start()
    const sessions = await Promise.all(Array.from({ length: 4 }, () => world.session()))
    const slow = sessions.slice(1).map((id) => world.turn(id, 'Slow'))
    await sleep(300)
    const seen = await world.turn(sessions[0]!, 'Die')
    expect(seen.slice(-2)).toMatchObject([
      { event: 'error', data: { code: 'RUN_QUARANTINED', retryable: false } },
      { event: 'done', data: { status: 'failed' } },
    ])
    expect(world.deaths).toHaveLength(2)
    for (const events of await Promise.all(slow))
      expect(events.at(-1)).toMatchObject({ event: 'done', data: { status: 'finished' } })
    expect(world.deaths).toHaveLength(2)
    const { body } = await world.call('GET', `/messages/${sessions[0]}`)
    expect(body.messages).toMatchObject([
      { type: 'human', content: 'Die' },
      { type: 'ai', content: quarantinedNotice, isComplete: false },
    ])
    // The session takes the next message.
    const next = await world.turn(sessions[0]!, 'Slow')
    expect(next.at(-1)?.data.status).toBe('finished')
  }, 60_000)

  test('a run that kills late dies alone the second time, and takes nobody along', async () => {
    const world = await where()
    await world.start()
    const sessions = await Promise.all([world.session(), world.session()])
    const slow = world.turn(sessions[1]!, 'Slow')
    await sleep(200)
    const seen = await world.turn(sessions[0]!, 'Die late')
    expect(seen.at(-1)?.data.status).toBe('failed')
    expect((await slow).at(-1)?.data.status).toBe('finished')
    expect(world.deaths).toHaveLength(2)
    const { messages } = (await world.call('GET', `/messages/${sessions[0]}`)).body
    expect(messages.at(-1).content).toBe(`I am on\n\n${quarantinedNotice}`)
  }, 60_000)

  test('a run that gets one step further before each death goes on', async () => {
    const world = await where()
    await world.start()
    const seen = await world.turn(await world.session(), 'Die on the way')
    expect(seen.at(-1)).toMatchObject({ event: 'done', data: { status: 'finished' } })
    expect(world.deaths).toHaveLength(3)
    expect((await world.call('GET', '/runs?status=quarantined')).body.total).toBe(0)
  }, 60_000)

  test('the operator sees what is quarantined, without a word of the user, and tries it again once', async () => {
    const world = await where()
    await world.start()
    expect((await world.call('GET', '/runs?status=quarantined')).body).toEqual({
      runs: [],
      total: 0,
    })
    const sessionId = await world.session()
    const [first] = await world.turn(sessionId, 'Die')
    const runId = first!.data.runId
    const { body: list } = await world.call('GET', '/runs?status=quarantined')
    expect(list).toEqual({
      total: 1,
      runs: [
        {
          runId,
          sessionId,
          did: someone,
          createdAt: expect.stringMatching(/Z$/),
          quarantinedAt: expect.stringMatching(/Z$/),
          attempts: 2,
          requestBytes: expect.any(Number),
          lastStep: { kind: 'user', at: expect.stringMatching(/Z$/) },
        },
      ],
    })
    expect(JSON.stringify(list)).not.toContain('Die')
    expect((await world.call('GET', '/runs?status=quarantined&offset=1')).body.runs).toEqual([])

    const retry = (id: string, more = {}) => world.call('POST', `/runs/${id}/retry`, {}, more)
    world.cure()
    const key = { 'Idempotency-Key': 'again' }
    const again = await retry(runId, key)
    expect(again).toMatchObject({ status: 201, body: { sessionId, retries: runId } })
    expect(again.body.runId).not.toBe(runId)
    expect((await retry(runId, key)).body).toEqual(again.body)
    expect(await retry(runId)).toMatchObject({ status: 409, body: { code: 'CONFLICT' } })
    await expect
      .poll(async () => (await world.call('GET', `/messages/${sessionId}`)).body.messages.at(-1))
      .toMatchObject({ type: 'ai', content: 'I live.', isComplete: true })
    expect((await world.call('GET', '/runs?status=quarantined')).body.total).toBe(0)
    // The answer is whole a moment before its run is at its end.
    await expect
      .poll(async () => await retry(again.body.runId))
      .toMatchObject({
        status: 409,
        body: { message: expect.stringContaining('is not quarantined: it is finished') },
      })
    expect((await retry(randomUUID())).status).toBe(404)
    for (const query of [
      '',
      '?status=all',
      '?status=quarantined&limit=0',
      '?status=quarantined&offset=-1',
    ])
      expect((await world.call('GET', `/runs${query}`)).status, query).toBe(400)
    // A session that is deleted leaves nothing to try again.
    await world.call('DELETE', `/sessions/${sessionId}`)
    expect((await retry(runId)).status).toBe(404)
  }, 60_000)
}

describe('a run that kills its process, on SQLite', () => {
  behavesAlike(async () => new World(undefined))
})

await describeWith('postgres', 'a run that kills its process, on PostgreSQL', (postgres) => {
  const where = async () => {
    const database = await freshDatabase(postgres)
    const world = new World(database.url)
    onTestFinished(async () => {
      killChildren()
      await database.drop()
    })
    return world
  }
  behavesAlike(where)

  test('does not take one replica after the other', async () => {
    const world = await where()
    await world.start(3)
    const mine = await world.session(1)
    const slow = world.turn(mine, 'Slow', 1)
    const seen = await world.turn(await world.session(), 'Die')
    expect(seen.at(-2)?.data.code).toBe('RUN_QUARANTINED')
    expect((await slow).at(-1)?.data.status).toBe('finished')
    expect(world.deaths).toHaveLength(2)
  }, 60_000)

  test('is not blamed together with one that its process lost while that was on trial', async () => {
    const database = await freshDatabase(postgres)
    onTestFinished(() => database.drop())
    const engine = () => new Promise<never>(() => {})
    const one = await replica({ databaseUrl: database.url, engine, restoreUser: fakeUser })
    const begin = async () => {
      const turn = await one.stream(`/messages/${await one.session()}`, { message: 'Hello' })
      turn.cut()
      return turn.headers.get('x-run-id') ?? ''
    }
    const [lost, next] = [await begin(), await begin()]
    const { db } = one.store
    // The process has lost both: the first on trial, which nobody else has taken, the second left by a process that died.
    await sql`update kernel_runs set deaths = 1, epoch = epoch + 1, on_trial = 1 where id = ${lost}`.execute(
      db,
    )
    await sql`update kernel_runs set deaths = 1, epoch = epoch + 1, owner = null where id = ${next}`.execute(
      db,
    )
    const onTrial = async () => {
      const found = sql<{ id: string }>`select id from kernel_runs where on_trial = 1`
      return (await found.execute(db)).rows.map(({ id }) => id)
    }
    await expect.poll(onTrial, { timeout: 30_000 }).toContain(next)
    expect(await onTrial()).toEqual([next])
  }, 60_000)

  test('is blamed for the death of a process that was killed between its sign of life and its leases', async () => {
    const database = await freshDatabase(postgres)
    onTestFinished(() => database.drop())
    const leaseMs = 1_500
    const engine = () => new Promise<never>(() => {})
    const one = await replica({ databaseUrl: database.url, leaseMs, engine, restoreUser: fakeUser })
    const { db } = one.store
    const now = sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`
    // The sign outlives the leases by a beat. One after the other, so that the sweeps of the replica come at every moment of it.
    for (const part of [0, 1, 2, 3, 4, 5]) {
      const turn = await one.stream(`/messages/${await one.session()}`, { message: 'Hello' })
      turn.cut()
      const killed = `killed-${part}`
      const until = sql<number>`${now} + ${Math.round(leaseMs / 3 + (part * leaseMs) / 6)}`
      await sql`insert into kernel_processes (owner, alive_until) values (${killed}, ${until} + ${leaseMs / 3})`.execute(
        db,
      )
      await sql`update kernel_runs set owner = ${killed}, epoch = epoch + 1, lease_until = ${until}
        where id = ${turn.headers.get('x-run-id')}`.execute(db)
    }
    const runs = async () =>
      (
        await sql<{ owner: string | null; deaths: number; died_with: string }>`
          select owner, deaths, died_with from kernel_runs order by created_at`.execute(db)
      ).rows
    const isTaken = async () => (await runs()).every(({ owner }) => !owner?.startsWith('killed'))
    await expect.poll(isTaken, { timeout: 20_000 }).toBe(true)
    expect((await runs()).map(({ deaths, died_with }) => [deaths, died_with])).toEqual(
      [0, 1, 2, 3, 4, 5].map((part) => [1, `killed-${part}`]),
    )
  }, 60_000)

  test('is told from a run whose process lives and only lost its lease: that is tried four times', async () => {
    const database = await freshDatabase(postgres)
    onTestFinished(() => database.drop())
    let died = 0
    const options = {
      databaseUrl: database.url,
      leaseMs: 300,
      engine: async () => {
        died++
        await sleep(20)
        throw new RuntimeError('DATABASE_UNREACHABLE', 'The database does not answer.')
      },
      restoreUser: fakeUser,
    } as const
    const one = await replica(options)
    const sessionId = await one.session()
    const stream = await one.stream(`/messages/${sessionId}`, { message: 'Hello' })
    const events = await stream.rest()
    // Four takeovers without a step, and each of them under a living process.
    expect(events.at(-1)?.data).toMatchObject({ status: 'interrupted' })
    expect(died).toBe(5)
    const { body } = await one.call('GET', `/messages/${sessionId}`)
    expect(body.messages.at(-1)).toMatchObject({ content: givenUpNotice, isComplete: false })
    expect((await one.call('GET', '/runs?status=quarantined')).body.total).toBe(0)
  }, 30_000)
})
