import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { afterEach, expect, it, onTestFinished } from 'vitest'
import type { JobRow } from '../../core/runtime/jobs/tables.ts'
import { type Child, killChildren, startChild } from '../support/child.ts'
import { onEachDatabase, onPostgres, type Where } from '../support/each-database.ts'
import type { JobNote, JobServerSettings } from '../support/job-server.ts'
import { storeOf } from '../support/store-of.ts'

afterEach(killChildren)

/** With CHAOS_JOBS=2000 the suite is the long one: so many jobs, a disturbance every two seconds, sixty ticks. */
const asked = Number(process.env.CHAOS_JOBS ?? 0)
const isLong = asked > 0
const longMs = 300_000
const workMs = isLong ? 150 : 10
/** A machine under load keeps a process from renewing its leases for longer than the short ones, and nobody has disturbed it. */
const leaseMs = isLong ? 600 : 2_000

/** What the test itself did to a process, noted in its place among the notes. */
interface Disturbance {
  readonly what: 'killed' | 'stopped' | 'continued'
  readonly pid: number
}
type Work = JobNote & { readonly what: 'began' | 'ended' }
type Tick = JobNote & { readonly what: 'tick' }
type Note = Work | Tick | Disturbance

const isWork = (note: Note): note is Work => note.what === 'began' || note.what === 'ended'
const isTick = (note: Note): note is Tick => note.what === 'tick'

/** Servers of one database, and what their jobs noted. */
function fleet(where: Where, more: Partial<JobServerSettings> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'oracle-jobs-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const notes = join(folder, 'notes')
  writeFileSync(notes, '')
  const dataDir = join(folder, 'data')
  const settings: JobServerSettings = {
    databaseUrl: where.databaseUrl,
    dataDir: where.databaseUrl === undefined ? dataDir : undefined,
    notes,
    leaseMs,
    workMs,
    ...more,
  }
  return {
    async start(): Promise<{ child: Child; url: string }> {
      const child = startChild('job-server.ts', [JSON.stringify(settings)])
      const [url = ''] = await child.printed(1)
      return { child, url }
    },
    async kill(child: Child) {
      await child.kill('SIGKILL')
      appendFileSync(notes, `${JSON.stringify({ what: 'killed', pid: child.process.pid })}\n`)
    },
    stop(child: Child) {
      appendFileSync(notes, `${JSON.stringify({ what: 'stopped', pid: child.process.pid })}\n`)
      child.process.kill('SIGSTOP')
    },
    continue(child: Child) {
      appendFileSync(notes, `${JSON.stringify({ what: 'continued', pid: child.process.pid })}\n`)
      child.process.kill('SIGCONT')
    },
    noted: (): Note[] =>
      readFileSync(notes, 'utf8')
        .split('\n')
        .filter((line) => line.endsWith('}'))
        .map((line) => JSON.parse(line)),
    store: () => storeOf(dataDir, where),
  }
}

const ask = (url: string, from: number, to: number) =>
  fetch(`${url}/work`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ from, to }),
  })

/** How many jobs are done, as their server says: what ended in a process that was killed then may have to be done once more. */
async function doneAt(url: string): Promise<number> {
  const headers = { authorization: 'Bearer the-operator-of-these-jobs' }
  const answer = await fetch(`${url}/jobs?state=done&limit=1`, { headers })
  return ((await answer.json()) as { total: number }).total
}

/** How many jobs have ended. */
const endedOf = (noted: readonly Note[]) =>
  new Set(noted.flatMap((note) => (isWork(note) && note.what === 'ended' ? [note.n] : []))).size

/** What must hold of the notes, whatever was killed when. */
function check(noted: readonly Note[], many: number) {
  const work = noted.filter(isWork)
  expect(endedOf(noted)).toBe(many)
  for (const { n, key } of work) expect(key).toBe(`n-${n}`)
  // No attempt begins twice: each claim is one attempt more.
  const begun = work
    .filter(({ what }) => what === 'began')
    .map(({ n, attempt }) => `${n}/${attempt}`)
  expect(new Set(begun).size).toBe(begun.length)
  expect(overlaps(noted)).toEqual([])
}

/** Attempts that began while another attempt of the job was under way in a process that nobody had disturbed since. */
function overlaps(noted: readonly Note[]): string[] {
  const found: string[] = []
  const underWay = new Map<number, { note: Work; isDisturbed: boolean }>()
  for (const note of noted) {
    if (isTick(note)) continue
    if (!isWork(note)) {
      for (const each of underWay.values()) if (each.note.pid === note.pid) each.isDisturbed = true
      continue
    }
    const before = underWay.get(note.n)
    if (note.what === 'began') {
      if (before && !before.isDisturbed)
        found.push(`${note.n}: attempt ${note.attempt} beside ${before.note.attempt}`)
      underWay.set(note.n, { note, isDisturbed: false })
    } else if (before?.note.attempt === note.attempt) underWay.delete(note.n)
  }
  return found
}

async function checkRows(servers: ReturnType<typeof fleet>, many: number) {
  const store = await servers.store()
  onTestFinished(() => store.close())
  const { rows } = await sql<JobRow>`select * from kernel_jobs where name = 'work'`.execute(
    store.db,
  )
  expect(rows).toHaveLength(many)
  const ends = new Map<string, number[]>()
  for (const note of servers.noted())
    if (isWork(note) && note.what === 'ended')
      ends.set(note.key, [...(ends.get(note.key) ?? []), note.attempt])
  for (const { state, key, attempts } of rows) {
    expect(state).toBe('done')
    expect(ends.get(key)).toContain(attempts)
  }
}

/** The tests of schedules share a database: each begins without the row of the one before. */
async function forgetSchedule(servers: ReturnType<typeof fleet>) {
  const store = await servers.store()
  await sql`delete from kernel_jobs where name = 'tick'`.execute(store.db)
  await store.close()
}

await onEachDatabase('jobs under kill -9', (where) => {
  it(
    'all end, each with its one key and with attempts that count rightly',
    async () => {
      const many = isLong ? asked : 200
      const servers = fleet(where)
      let { child, url } = await servers.start()
      for (let from = 0; from < many; from += 50)
        expect((await ask(url, from, from + 50)).status).toBe(200)
      let deaths = 0
      for (; isLong ? endedOf(servers.noted()) < many : deaths < 3; deaths++) {
        await sleep(isLong ? 2_000 : 40 * (deaths + 1))
        await servers.kill(child)
        ;({ child, url } = await servers.start())
      }
      await expect.poll(() => doneAt(url), { timeout: 120_000 }).toBe(many)
      child.process.kill('SIGTERM')
      expect(await child.ended()).toBe(0)
      check(servers.noted(), many)
      await checkRows(servers, many)
      tell(`${many} jobs, ${deaths} deaths, ${againOf(servers.noted())} attempts after the first`)
    },
    isLong ? longMs : 180_000,
  )
})

/** Attempts that were not the first of their job. */
const againOf = (noted: readonly Note[]) =>
  noted.filter((note) => note.what === 'began' && note.attempt > 1).length

function tell(figures: string): void {
  if (isLong) process.stdout.write(`${figures}\n`)
}

await onPostgres('jobs on two replicas', (where) => {
  it(
    'of which one dies and one stands still again and again all end, none at once under one lease',
    async () => {
      const many = isLong ? asked : 400
      const servers = fleet(where)
      let [first, second] = [await servers.start(), await servers.start()]
      for (let from = 0; from < many; from += 100)
        expect((await ask((from % 200 === 0 ? first : second).url, from, from + 100)).status).toBe(
          200,
        )
      let rounds = 0
      for (; isLong ? endedOf(servers.noted()) < many : rounds < 3; rounds++) {
        await sleep(isLong ? 1_000 : 150)
        servers.stop(first.child)
        await sleep(isLong ? 1_000 : 300)
        await servers.kill(second.child)
        const third = await servers.start()
        servers.continue(first.child)
        ;[first, second] = [third, first]
      }
      await expect.poll(() => doneAt(first.url), { timeout: 120_000 }).toBe(many)
      for (const { child } of [first, second]) child.process.kill('SIGTERM')
      for (const { child } of [first, second]) expect(await child.ended()).toBe(0)
      check(servers.noted(), many)
      await checkRows(servers, many)
      tell(`${many} jobs, ${rounds} rounds, ${againOf(servers.noted())} attempts after the first`)
    },
    isLong ? longMs : 180_000,
  )

  it(
    'share a schedule while one after the other is killed in the middle of a tick: no tick is lost, and none comes in another',
    async () => {
      // The lease of a replica that died holds for several ticks; each of them runs by itself.
      const servers = fleet(where, { every: 1_000, tickMs: 200, leaseMs: 3_200 })
      onTestFinished(() => forgetSchedule(servers))
      let replicas = [await servers.start(), await servers.start()]
      const ticks = () => servers.noted().filter(isTick)
      const planned = () => new Set(ticks().map(({ n }) => n))
      const many = isLong ? 60 : 14
      let deaths = 0
      while (planned().size < many) {
        const before = planned().size
        const next = isLong ? 4 : 3
        await expect
          .poll(() => planned().size, { timeout: 60_000, interval: 20 })
          .toBeGreaterThanOrEqual(before + next)
        const at = ticks().at(-1)?.pid
        const dies = replicas.find(({ child }) => child.process.pid === at) ?? replicas[0]
        const lives = replicas.find((each) => each !== dies)
        if (!dies || !lives) throw new Error('There are two replicas.')
        await servers.kill(dies.child)
        deaths++
        replicas = [lives, await servers.start()]
      }
      const size = planned().size
      await expect.poll(() => planned().size, { timeout: 60_000 }).toBeGreaterThan(size)
      for (const { child } of replicas) child.process.kill('SIGTERM')
      for (const { child } of replicas) expect(await child.ended()).toBe(0)
      const all = ticks()
      // A tick comes again only where its process died before the end was kept, as a further attempt of the same key.
      const attempts = all.map(({ n, attempt }) => `${n}/${attempt}`)
      expect(new Set(attempts).size).toBe(attempts.length)
      for (const { n, key } of all) expect(key).toBe(`worker.tick@${new Date(n).toISOString()}`)
      const again = all.filter(({ attempt }) => attempt > 1)
      expect(again.length).toBeGreaterThan(0)
      all.reduce((earlier, tick) => {
        expect([0, 1_000]).toContain(tick.n - earlier.n)
        return tick
      })
      tell(`${planned().size} ticks, ${deaths} deaths, ${again.length} ticks taken over`)
    },
    isLong ? longMs : 180_000,
  )

  it(
    'share a schedule: each tick once, none twice, those that were missed by both as one',
    async () => {
      const servers = fleet(where, { every: 1_000 })
      onTestFinished(() => forgetSchedule(servers))
      const replicas = [await servers.start(), await servers.start()]
      const ticks = () => servers.noted().filter(isTick)
      const many = isLong ? 60 : 4
      await expect.poll(() => ticks().length, { timeout: 90_000 }).toBeGreaterThanOrEqual(many)
      for (const { child } of replicas) await child.kill('SIGTERM')
      const before = ticks()
      before.reduce((earlier, tick) => {
        expect(tick.n - earlier.n).toBe(1_000)
        return tick
      })
      await sleep(3_500)
      const again = await servers.start()
      await expect
        .poll(() => ticks().length, { timeout: 20_000 })
        .toBeGreaterThan(before.length + 1)
      await again.child.kill('SIGKILL')
      const all = ticks().map(({ n }) => n)
      expect(new Set(all).size).toBe(all.length)
      const gap = (all[before.length] ?? 0) - (before.at(-1)?.n ?? 0)
      expect(gap).toBeGreaterThanOrEqual(3_000) // the newest of what was missed
      expect(gap % 1_000).toBe(0)
      const shares = replicas.map(
        ({ child }) => before.filter(({ pid }) => pid === child.process.pid).length,
      )
      tell(
        `${before.length} ticks, by replica ${shares.join(' and ')}; ${gap / 1_000 - 1} missed came as one`,
      )
    },
    isLong ? longMs : 180_000,
  )
})
