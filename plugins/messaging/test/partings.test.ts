import { expect, it } from 'vitest'
import { type Database, definePlugin } from '#core'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenOracle, oracleId, waitFor } from '../../../test/support/open-oracle.ts'
import { withMessagingTables } from '../tables.ts'

await onEachDatabase('a room without its person', ({ databaseUrl }) => {
  let db: Database | undefined
  const probe = definePlugin({
    name: 'table-probe',
    summary: 'Hands the database to the test.',
    setup: (boot) => void (db = boot.db),
  })
  const open = new OpenOracle({ databaseUrl, plugins: [probe], app: { clock: true } })

  /** A person who is linked to a user, and has talked to the oracle in a room of theirs. */
  async function talk(name: string) {
    const person = await open.person(name)
    const user = await open.app.user()
    await user.post('/messaging/identity', open.server.accounts.mintOpenId(person.userId))
    const room = await open.directRoom(person)
    const answer = `Hello, ${name} of the river.`
    open.replies.push(answer)
    await person.say(room, `I am ${name} of the river.`)
    await person.hears(room, answer)
    const sessions = async () => (await user.get('/sessions')).body.sessions.length
    await expect.poll(sessions).toBe(1)
    return { person, room, sessions }
  }

  const isAlone = (room: string) => async () => {
    if (!db) throw new Error('There is no database.')
    const row = await withMessagingTables(db)
      .selectFrom('messaging_sessions')
      .select('alone_since')
      .where('room_id', '=', room)
      .executeTakeFirstOrThrow()
    return row.alone_since !== null
  }

  it('has its conversation deleted thirty days later, and no day before; another one stays', async () => {
    const [ann, bob] = [await talk('ann'), await talk('bob')]
    await ann.person.leave(ann.room)
    await waitFor(isAlone(ann.room))
    expect(await isAlone(bob.room)()).toBe(false)
    await open.app.clock.advance('29d')
    expect(await ann.sessions()).toBe(1)
    await open.app.clock.advance('2d')
    await expect.poll(ann.sessions).toBe(0)
    expect(await bob.sessions()).toBe(1)
  })

  it('keeps it where the oracle is put out and invited again', async () => {
    const { person, room, sessions } = await talk('eve')
    await person.kick(room, oracleId)
    await waitFor(isAlone(room))
    await person.invite(room, oracleId)
    await waitFor(async () => !(await isAlone(room)()))
    await open.app.clock.advance('31d')
    expect(await sessions()).toBe(1)
  })
})
