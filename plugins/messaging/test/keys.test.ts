import { expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { definePlugin, type Database } from '#core'
import { messagingEnv, OpenOracle, oracleId, waitFor } from '../../../test/support/open-oracle.ts'

await onEachDatabase('keys of the device', ({ databaseUrl }) => {
  let db: Database | undefined
  const probe = definePlugin({
    name: 'table-probe',
    summary: 'Hands the database to the test.',
    setup: (boot) => void (db = boot.db),
  })
  const open = new OpenOracle({ databaseUrl, plugins: [probe] })
  const rows = async () => {
    const tables = db?.withTables<{ messaging_keys: { value: string; store: string } }>()
    return (await tables?.selectFrom('messaging_keys').selectAll().execute()) ?? []
  }

  it('outlive the death of the process, also for what was said meanwhile', async () => {
    const ann = await open.person('ann')
    for (let round = 0; round < 4; round++) {
      const room = await open.directRoom(ann)
      open.replies.push(`answer ${round} a`, `answer ${round} b`)
      await ann.say(room, `question ${round} a`)
      await ann.hears(room, `answer ${round} a`)
      await open.app.crash()
      await ann.say(room, `question ${round} b`)
      await open.app.again()
      await ann.hears(room, `answer ${round} b`)
      expect(ann.seen(room).filter(({ sender }) => sender === oracleId)).toHaveLength(2)
    }
    expect(open.server.refused.filter((line) => line.includes('keys/upload'))).toEqual([])
    expect(open.server.accounts.get(oracleId)?.devices.size).toBe(1)
  })

  it('hold nothing up that cannot be written for a moment: the account is taken anew, with what was kept', async () => {
    const dan = await open.person('dan')
    const rename = (from: string, to: string) => db?.schema.alterTable(from).renameTo(to).execute()
    /** Takes the table of the keys away until the account was let go of. */
    const without = async (act: () => Promise<unknown>) => {
      const failures = () =>
        open.app.log.filter((line) => line.includes('The work of a lease failed')).length
      const before = failures()
      await rename('messaging_keys', 'messaging_keys_away')
      try {
        await act()
        await waitFor(async () => failures() > before)
      } finally {
        await rename('messaging_keys_away', 'messaging_keys')
      }
    }
    const room = await open.directRoom(dan)
    open.replies.push('Ten.', 'Eleven.')
    await without(() => dan.say(room, 'What is nine and one?'))
    await dan.hears(room, 'Ten.')
    // In another session of the encryption, whose first key comes while nothing can be kept.
    const fresh = await open.directRoom(dan)
    await without(() => dan.say(fresh, 'What is nine and two?'))
    await dan.hears(fresh, 'Eleven.')
    for (const [where, words] of [
      [room, 'Ten.'],
      [fresh, 'Eleven.'],
    ] as const) {
      const said = dan.seen(where).filter(({ sender }) => sender === oracleId)
      expect(said.map(({ body }) => body)).toEqual([words])
    }
    expect(open.server.refused.filter((line) => line.includes('keys/upload'))).toEqual([])
    expect(open.server.accounts.get(oracleId)?.devices.size).toBe(1)
  })

  it('lie sealed in the database, and a wrong key fails without overwriting anything', async () => {
    const wrong = { ...messagingEnv(open.server.url), MATRIX_STORE_KEY: 'cd'.repeat(32) }
    const fails = async () => {
      await open.app.again({ env: wrong })
      await waitFor(async () => {
        const { body } = await open.app.get('/health')
        return JSON.stringify(body).includes('MATRIX_STORE_KEY is not the key')
      })
      return rows()
    }
    const before = await fails()
    expect(before.length).toBeGreaterThan(10)
    expect(before.every(({ value }) => !/ed25519|"key"/.test(atob(value)))).toBe(true)
    expect(await fails()).toEqual(before)
    const right = messagingEnv(open.server.url)
    await open.app.again({ env: right })
    await open.loaded()
  })
})
