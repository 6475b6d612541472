import { sql } from 'kysely'
import { expect, it, onTestFinished } from 'vitest'
import type { Log } from '../../core/plugin.ts'
import { Notices } from '../../core/runtime/notices/notices.ts'
import { noticesMigration } from '../../core/runtime/notices/tables.ts'
import { openStore } from '../../core/runtime/store/store.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { SetClock } from '../support/job-app.ts'
import { silent } from '../support/silent-log.ts'

await onEachDatabase('making notices', (where) => {
  const open = async (clock?: SetClock, log: Log = silent) => {
    const store = await openStore({ databaseUrl: where.databaseUrl, log })
    onTestFinished(() => store.close())
    await store.migrate('test-notices', { '001-notices': noticesMigration })
    const now = clock?.now ?? (() => store.now)
    return { store, notices: new Notices({ store, log, now }) }
  }
  const asked = (did: string, n: number) => ({
    did,
    kind: 'say' as const,
    plugin: 'helper',
    title: 'News',
    text: `Number ${n}.`,
    key: `n-${n}`,
  })

  it('happens once for a key, in the caller’s transaction, and not at all when that is undone', async () => {
    const { store, notices } = await open()
    const did = 'did:key:zKeys'
    const first = await notices.add(store.db, asked(did, 1))
    expect(first).toMatchObject({ user: did, kind: 'say', text: 'Number 1.' })
    expect(await notices.add(store.db, asked(did, 1))).toBeUndefined()
    expect(await notices.add(store.db, asked('did:key:zOther', 1))).toBeDefined()
    const undone = store.db.transaction().execute(async (trx) => {
      expect(await notices.add(trx, asked(did, 2))).toBeDefined()
      throw new Error('undone')
    })
    await expect(undone).rejects.toThrow('undone')
    const { notices: kept } = await notices.list(did, { limit: 10 })
    expect(kept.map(({ text }) => text)).toEqual(['Number 1.'])
    const both = await Promise.all([1, 2].map(() => notices.add(store.db, asked(did, 3))))
    expect(both.filter((made) => made !== undefined)).toHaveLength(1)
  })

  it('gives numbers in the order in which notices become visible, whoever makes them at once', async () => {
    const makers = await Promise.all([open(), open(), open()].slice(0, where.databaseUrl ? 3 : 1))
    const did = 'did:key:zOrder'
    const [{ notices }] = makers as [(typeof makers)[0]]
    const seen: number[] = []
    let isMade = false
    const making = Promise.all(
      Array.from({ length: 60 }, (_, n) => {
        const { store, notices } = makers[n % makers.length]!
        return store.db.transaction().execute(async (trx) => {
          await notices.add(trx, asked(did, n))
          await sql`select 1`.execute(trx)
        })
      }),
    ).then(() => (isMade = true))
    // A reader that goes on after the last number it saw misses none.
    const reader = notices.read(did, 0)
    await reader.next()
    const { store } = makers[0]!
    for (let last = 0, done = false; !done;) {
      done = isMade
      const { rows } = await sql<{ id: number }>`select id from kernel_notices
        where did = ${did} and id > ${last} order by id`.execute(store.db)
      for (const { id } of rows) seen.push((last = id))
    }
    await making
    await reader.return()
    const { notices: all } = await notices.list(did, { limit: 100 })
    expect(seen).toEqual(all.map(({ id }) => id).reverse())
    expect(seen).toHaveLength(60)
  })

  it('keeps 200 characters and no U+0000', async () => {
    const { store, notices } = await open()
    const did = 'did:key:zCut'
    const text = `a\0${'😀'.repeat(300)}`
    const made = await notices.add(store.db, { ...asked(did, 1), title: `t\0\ud800`, text })
    expect(made?.title).toBe('t�')
    expect(Array.from(made?.text ?? '')).toHaveLength(200)
    expect(made?.text).toBe(`a${'😀'.repeat(198)}…`)
    const short = await notices.add(store.db, { ...asked(did, 2), text: '😀'.repeat(200) })
    expect(short?.text).toBe('😀'.repeat(200))
  })

  it('keeps 1,000 of a user, the newest, for 30 days', { timeout: 120_000 }, async () => {
    const clock = new SetClock('2026-03-01T00:00:00Z')
    const { store, notices } = await open(clock)
    const [did, other] = ['did:key:zMany', 'did:key:zFew']
    await notices.add(store.db, asked(other, 1))
    await store.db.transaction().execute(async (trx) => {
      for (let n = 0; n < 1_001; n++) await notices.add(trx, asked(did, n))
    })
    expect(await notices.unread(did)).toBe(1_000)
    expect(await notices.unread(other)).toBe(1)
    const { rows } = await sql<{ body: string }>`select body from kernel_notices
      where did = ${did} order by id limit 1`.execute(store.db)
    expect(rows[0]?.body).toBe('Number 1.')
    clock.advance(29 * 86_400_000)
    const late = await notices.add(store.db, asked(did, 2_000))
    clock.advance(86_400_001)
    await notices.tidy()
    expect(await notices.unread(did)).toBe(1)
    expect(await notices.unread(other)).toBe(0)
    // A number never comes twice, also when nothing of the user is left.
    clock.advance(31 * 86_400_000)
    await notices.tidy()
    expect(await notices.unread(did)).toBe(0)
    const { rows: users } = await sql`select * from kernel_notice_users where did = ${did}`.execute(
      store.db,
    )
    expect(users).toEqual([])
    const next = await notices.add(store.db, asked(did, 2_001))
    expect(next?.id).toBeGreaterThan(late?.id ?? Infinity)
  })

  it('leaves a reader that takes nothing at the hints it may keep, and brings it every notice', async () => {
    const { store, notices } = await open()
    await notices.open()
    onTestFinished(() => notices.close())
    const did = 'did:key:zSlow'
    const reader = notices.read(did)
    await reader.next()
    for (let n = 0; n < 120; n++) await notices.add(store.db, asked(did, n))
    for (let n = 0; n < 120; n++)
      expect((await reader.next()).value).toMatchObject({ data: { text: `Number ${n}.` } })
    // Another reader takes what comes: so it is known what the slow one has been told.
    const quick = notices.read(did)
    await quick.next()
    for (let n = 0; n < 300; n++) {
      notices.tell(did, 'run', { runId: `r${n}`, sessionId: 's' })
      expect((await quick.next()).value).toMatchObject({ data: { runId: `r${n}` } })
    }
    await quick.return()
    let hints = 0
    for await (const { event } of reader) if (event === 'run') hints++
    expect(hints).toBeLessThanOrEqual(200)
    // The client comes again, and hears of what it had not read.
    await notices.add(store.db, asked(did, 120))
    const { notices: all } = await notices.list(did, { limit: 2 })
    const again = notices.read(did, all[1]?.id)
    await again.next()
    expect((await again.next()).value).toMatchObject({ id: all[0]?.id })
    await again.return()
  })
})
