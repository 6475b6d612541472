import { expect, it } from 'vitest'
import { z } from 'zod'
import { testApp, type TestApp } from '#core/testing'
import { onEachDatabase, onPostgres } from '../../../test/support/each-database.ts'
import { definePlugin, type Database } from '#core'
import { messagingEnv, OpenOracle, oracleId } from '../../../test/support/open-oracle.ts'
import messaging from '../index.ts'
import { withMessagingTables } from '../tables.ts'

const poem = Array.from({ length: 40 }, (_, n) => `word${n}`).join(' ')

await onEachDatabase('a crash', ({ databaseUrl }) => {
  let db: Database | undefined
  const probe = definePlugin({
    name: 'table-probe',
    summary: 'Hands the database to the test.',
    setup: (boot) => void (db = boot.db),
  })
  const open = new OpenOracle({ databaseUrl, plugins: [probe] })

  it('in the middle of an answer leaves one message with the whole answer', async () => {
    const ann = await open.person('ann')
    for (const encrypted of [true, false]) {
      const room = await open.directRoom(ann, encrypted)
      open.replies.push({ text: poem, paceMs: 100 }, poem)
      await ann.say(room, 'Say many words.')
      await ann.hears(room, 'word5')
      await open.app.crash()
      await open.app.again()
      await ann.hears(room, ({ sender, body }) => sender === oracleId && body === poem)
      open.replies.length = 0
      open.replies.push('Yes.')
      await ann.say(room, 'Are you done?')
      await ann.hears(room, 'Yes.')
      const said = ann.seen(room).filter(({ sender }) => sender === oracleId)
      expect(said.map(({ body }) => body)).toEqual([poem, 'Yes.'])
    }
  })

  it('of which nobody knows whether the first words had left leaves one message, too', async () => {
    const eve = await open.person('eve')
    const room = await open.directRoom(eve)
    open.replies.push({ text: poem, paceMs: 100 }, poem)
    await eve.say(room, 'Say many words.')
    await eve.hears(room, 'word5')
    await open.app.crash()
    // The database of the moment before, and a server that has forgotten transaction ids.
    const env = messagingEnv(open.server.url)
    await open.app.again({ env: { ...env, FEATURES: 'messaging=off' } })
    if (!db) throw new Error('There is no database.')
    const tables = withMessagingTables(db)
    await tables.updateTable('messaging_events').set({ answer_id: null }).execute()
    await tables.deleteFrom('messaging_sent').execute()
    for (const device of open.server.accounts.get(oracleId)?.devices.values() ?? [])
      device.sent.clear()
    await open.app.again({ env: { ...env, FEATURES: 'messaging=on' } })
    await eve.hears(room, ({ sender, body }) => sender === oracleId && body === poem)
    const said = eve.seen(room).filter(({ sender }) => sender === oracleId)
    expect(said.map(({ body }) => body)).toEqual([poem])
  })
})

/** What a turn reads that a process goes on with which does not hold the account. */
const reader = definePlugin({
  name: 'reader',
  summary: 'Reads a file of the messaging server.',
  uses: [messaging],
  routes: {
    'GET /read': {
      input: z.object({ uri: z.string() }),
      async run({ uri }, { plugins }) {
        const api = await plugins.messaging?.media()
        const bytes = await api?.download(uri, 1_000)
        return { text: bytes && Buffer.from(bytes).toString() }
      },
    },
  },
})

await onPostgres('two replicas', ({ databaseUrl }) => {
  const open = new OpenOracle({ databaseUrl, plugins: [reader] })

  it('know which of them holds the account, and both read the files that people sent', async () => {
    const second = await testApp(open.appOptions())
    try {
      await open.loaded(second)
      const noteOf = async (app: TestApp): Promise<string | undefined> =>
        (await app.get('/health')).body.notes?.find(
          ({ plugin }: { plugin: string }) => plugin === 'messaging',
        )?.check
      expect(await noteOf(open.app)).toBeUndefined()
      expect(await noteOf(second)).toMatch(/^\S+:\d+ holds the account$/)
      const ann = await open.person('ann')
      const uri = await ann.api.upload(Buffer.from('The well is dry.'), 'text/plain')
      for (const app of [open.app, second])
        expect((await (await app.user()).get(`/read?uri=${uri}`)).body).toEqual({
          text: 'The well is dry.',
        })
    } finally {
      await second.close()
    }
  })

  it('hold the account one after the other, as one device, and answer each message once', async () => {
    const second = await testApp(open.appOptions())
    await open.loaded(second)
    const bob = await open.person('bob')
    const room = await open.directRoom(bob)
    const answers = () => bob.seen(room).filter(({ sender }) => sender === oracleId)
    for (let n = 0; n < 4; n++) {
      open.replies.push(`answer ${n}`)
      await bob.say(room, `question ${n}`)
      if (n === 1) await open.app.crash()
      if (n === 2) await open.app.again()
      if (n === 3) await second.close()
      await bob.hears(room, `answer ${n}`)
    }
    expect(answers().map(({ body }) => body)).toEqual([0, 1, 2, 3].map((n) => `answer ${n}`))
    expect(open.server.accounts.get(oracleId)?.devices.size).toBe(1)
    expect(open.server.refused.filter((line) => line.includes('keys/upload'))).toEqual([])
  })
})
