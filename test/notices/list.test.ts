import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, type Jobs, type Notice } from '#core'
import { testApp, type TestUser } from '#core/testing'
import { killChildren, startChild } from '../support/child.ts'
import { onEachDatabase, type Where } from '../support/each-database.ts'
import type { CarriedNote, NoticeServerSettings } from '../support/notice-server.ts'

afterEach(killChildren)

/** A plugin whose jobs fail, and how to ask for one. */
function failing(name: string) {
  const asked: { jobs?: Jobs<{ fail: z.ZodObject }> } = {}
  const plugin = definePlugin({
    name,
    summary: 'Fails at what it is asked for.',
    jobs: { fail: { input: z.object({}), attempts: 1, run: (_, { job }) => job.giveUp('No.') } },
    setup({ jobs }) {
      asked.jobs = jobs
      return undefined
    },
  })
  const fail = ({ did }: TestUser) => asked.jobs?.later('fail', {}, { user: did })
  return { plugin, fail }
}

/** A plugin that carries notices to a list of the test. */
function carrier(name: string, fail = 0) {
  const carried: { notice: Notice; key: string; attempt: number; user?: string }[] = []
  let failures = fail
  const plugin = definePlugin({
    name,
    summary: 'Carries notices.',
    setup: () => ({ greeting: 'You have news:' }),
    notices(notice, { job, self }) {
      expect(self.greeting).toBe('You have news:')
      carried.push({ notice, key: job.key, attempt: job.attempt, user: job.user })
      if (failures-- > 0) throw new Error('The pager is off.')
    },
  })
  return { plugin, carried }
}

await onEachDatabase('the notices of a user', (where: Where) => {
  const env = where.databaseUrl === undefined ? undefined : { DATABASE_URL: where.databaseUrl }
  const boot = async (more: readonly ReturnType<typeof carrier>[] = []) => {
    const [helper, courier] = [failing('helper'), failing('courier')]
    const app = await testApp({
      plugins: [helper, courier, ...more].map(({ plugin }) => plugin),
      env,
    })
    onTestFinished(() => app.close())
    return { app, helper, courier }
  }
  const unread = async (user: TestUser) => (await user.get('/notices')).body.unread as number

  it('are marked as seen by number, up to a number, and by session', async () => {
    const { app, helper } = await boot()
    const user = await app.user()
    for (let n = 0; n < 4; n++) await helper.fail(user)
    await expect.poll(() => unread(user)).toBe(4)
    const [fourth, , , first] = (await user.get('/notices')).body.notices
    expect((await user.post('/notices/seen', { ids: [fourth.id] })).body).toEqual({ unread: 3 })
    expect((await user.post('/notices/seen', { upTo: first.id })).body).toEqual({ unread: 2 })
    const { body } = await user.get('/notices?unread=true')
    expect(body.notices).toHaveLength(2)
    const all = (await user.get('/notices')).body.notices
    expect(all.map(({ seenAt }: { seenAt?: string }) => seenAt !== undefined)).toEqual([
      true,
      false,
      false,
      true,
    ])
    expect((await user.post('/notices/seen', { sessionId: 'none' })).body).toEqual({ unread: 2 })
    // Another user marks nothing of them.
    const other = await app.user()
    expect((await other.post('/notices/seen', { upTo: fourth.id })).body).toEqual({ unread: 0 })
    expect(await unread(user)).toBe(2)
  })

  it('refuse what is no list of numbers, no page and no plugin', async () => {
    const { app } = await boot()
    const user = await app.user()
    const ids = Array.from({ length: 1_001 }, (_, i) => i)
    for (const body of [
      {},
      { ids: [] },
      { ids },
      { ids: ['1'] },
      { ids: [1], upTo: 2 },
      { upTo: -1 },
      { upTo: 2 ** 60 },
      { sessionId: '' },
      { sessionId: 'a\0b' },
    ])
      expect((await user.post('/notices/seen', body)).status, JSON.stringify(body)).toBe(400)
    for (const query of ['limit=0', 'limit=101', 'before=x', 'unread=maybe'])
      expect((await user.get(`/notices?${query}`)).status, query).toBe(400)
    const muted = await user.put('/notices/muted', { plugins: ['helper', 'helpr', 'a\u0001'] })
    expect(muted.status).toBe(400)
    expect(muted.body).toMatchObject({
      code: 'INVALID_INPUT',
      details: [{ path: 'plugins', message: 'names no plugin: "helpr", "a\\u0001"' }],
      message: 'There is no plugin "helpr", "a\\u0001".',
    })
    expect(muted.body.hint).toContain('helper')
    expect((await user.put('/notices/muted', { plugins: ['x\0'] })).status).toBe(400)
    const many = Array.from({ length: 201 }, () => 'helper')
    expect((await user.put('/notices/muted', { plugins: many })).status).toBe(400)
    expect((await user.get('/notices/muted')).body).toEqual({ plugins: [] })
  })

  it('come no more from a plugin that the user has muted, for others and other plugins they do', async () => {
    const { app, helper, courier } = await boot()
    const [user, other] = [await app.user(), await app.user()]
    const muted = await user.put('/notices/muted', { plugins: ['helper', 'helper'] })
    expect(muted.body).toEqual({ plugins: ['helper'] })
    await helper.fail(user)
    await helper.fail(other)
    await courier.fail(user)
    await expect.poll(async () => [await unread(user), await unread(other)]).toEqual([1, 1])
    expect((await user.get('/notices')).body.notices[0].plugin).toBe('courier')
    await user.put('/notices/muted', { plugins: [] })
    expect((await user.get('/notices/muted')).body).toEqual({ plugins: [] })
    await helper.fail(user)
    await expect.poll(() => unread(user)).toBe(2)
  })

  it('are carried by every plugin that carries them, once each, and again with the same key after a fault', async () => {
    const [well, ill] = [carrier('mail'), carrier('pager', 1)]
    const { app, helper, courier } = await boot([well, ill])
    const user = await app.user()
    await helper.fail(user)
    await expect
      .poll(() => [well.carried.length, ill.carried.length], { timeout: 10_000 })
      .toEqual([1, 2])
    const { notices } = (await user.get('/notices')).body
    const [{ seenAt: _, ...notice }] = notices
    expect(well.carried[0]).toMatchObject({ notice: { ...notice, user: user.did }, user: user.did })
    expect(ill.carried.map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(new Set([...well.carried, ...ill.carried].map(({ key }) => key)).size).toBe(1)
    // Whoever has muted a plugin is not called for either.
    await user.put('/notices/muted', { plugins: ['helper'] })
    await helper.fail(user)
    await courier.fail(user)
    await expect.poll(() => well.carried.length).toBe(2)
    expect(well.carried[1]?.notice.plugin).toBe('courier')
  })

  it('are carried with the same key after the process died with them', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'oracle-notices-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const [notes, gate] = [join(folder, 'notes'), join(folder, 'gate')]
    writeFileSync(notes, '')
    const dataDir = where.databaseUrl === undefined ? join(folder, 'data') : undefined
    const settings: NoticeServerSettings = { ...where, dataDir, notes, gate }
    const noted = (): CarriedNote[] =>
      readFileSync(notes, 'utf8')
        .split('\n')
        .filter((line) => line.endsWith('}'))
        .map((line) => JSON.parse(line))
    const many = 3
    const first = startChild('notice-server.ts', [JSON.stringify(settings)])
    const [url = ''] = await first.printed(1)
    const asked = await fetch(`${url}/fail`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ did: 'did:key:zSomebody', many }),
    })
    expect(asked.status).toBe(200)
    await expect.poll(() => noted().length, { timeout: 20_000 }).toBe(many)
    await first.kill('SIGKILL')
    writeFileSync(gate, '')
    const second = startChild('notice-server.ts', [JSON.stringify(settings)])
    const ended = () => noted().filter(({ what }) => what === 'ended')
    await expect.poll(() => ended().length, { timeout: 20_000 }).toBe(many)
    second.process.kill('SIGTERM')
    expect(await second.ended()).toBe(0)
    const keys = (what: CarriedNote['what'], attempt: number) =>
      noted()
        .filter((note) => note.what === what && note.attempt === attempt)
        .map(({ key }) => key)
        .sort()
    expect(new Set(keys('began', 1)).size).toBe(many)
    expect(keys('ended', 2)).toEqual(keys('began', 1))
    expect(ended()).toHaveLength(many)
  })
})
