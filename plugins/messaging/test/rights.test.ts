import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, type TestUser } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenOracle, oracleId, waitFor } from '../../../test/support/open-oracle.ts'

/** Who was given what, in the order in which it happened. */
const paid: { readonly did: string; readonly to: string }[] = []

/** What was burnt. */
const burnt: string[] = []

const ledger = definePlugin({
  name: 'ledger',
  summary: 'Pays.',
  visibility: 'always',
  tools: {
    pay: {
      description: 'Pays somebody.',
      input: z.object({ to: z.string() }),
      effect: 'read',
      can: { can: 'ledger/pay' },
      run({ to }, { user }) {
        paid.push({ did: user.did, to })
        return { paid: to }
      },
    },
    burn: {
      description: 'Burns a note.',
      input: z.object({ note: z.string() }),
      approve: true,
      can: { can: 'ledger/burn' },
      run({ note }) {
        burnt.push(note)
        return { burnt: note }
      },
    },
  },
})

await onEachDatabase('rights in rooms', ({ databaseUrl }) => {
  const open = new OpenOracle({ databaseUrl, plugins: [ledger] })
  const store = async (user: TestUser) => {
    const raw = (await user.wallet.delegate({ audience: open.app.oracleDid })).text
    expect((await user.post('/delegation', { raw })).status).toBe(200)
  }
  const paidBy = (did: string) => paid.filter((one) => one.did === did).map(({ to }) => to)

  it('are those of the delegation that a linked person has stored, until it is taken back', async () => {
    const ann = await open.person('ann')
    const room = await open.directRoom(ann)
    open.replies.push(call('pay', { to: 'guest' }), 'A guest may not.')
    await ann.say(room, 'Pay the guest')
    await ann.hears(room, 'I may not do that for a guest. Get a code at')
    await ann.hears(room, 'A guest may not.')
    const user = await open.app.user()
    const { body } = await user.post('/messaging/links')
    await ann.say(room, `!link ${body.code}`)
    await ann.hears(room, 'This account is linked to you now.')
    open.replies.push(call('pay', { to: 'nobody' }), 'Not without your permission.')
    await ann.say(room, 'Pay nobody')
    await ann.hears(room, 'I need your permission for that: open')
    await ann.hears(room, 'Not without your permission.')
    expect(paidBy(user.did)).toEqual([])
    await store(user)
    open.replies.push(call('pay', { to: 'baker' }), 'The baker has it.')
    await ann.say(room, 'Pay the baker')
    await ann.hears(room, 'The baker has it.')
    expect(paidBy(user.did)).toEqual(['baker'])
    expect((await user.delete('/delegation')).status).toBe(200)
    open.replies.push(call('pay', { to: 'butcher' }), 'No longer.')
    await ann.say(room, 'Pay the butcher')
    await ann.hears(room, 'No longer.')
    expect(paidBy(user.did)).toEqual(['baker'])
  })

  it('and a reaction alone lets no tool with a right run in an encrypted room, whoever gives it', async () => {
    const [bea, eve] = [await open.person('bea'), await open.person('eve')]
    const user = await open.app.user()
    await user.post('/messaging/identity', open.server.accounts.mintOpenId(bea.userId))
    await store(user)
    const room = await bea.createRoom({ invite: [oracleId, eve.userId], encrypted: true })
    await eve.join(room)
    await waitFor(async () => open.server.room(room).membership(oracleId) === 'join')
    for (const one of [bea, eve]) await one.hasMember(room, oracleId)
    burnt.length = 0
    open.replies.push(call('burn', { note: 'a letter' }), 'It is ashes.')
    await bea.say(room, 'oracle: burn the letter')
    const asks = await bea.hears(room, 'May I run')
    expect(asks.body).not.toContain('✅')
    await eve.react(room, asks.eventId, '✅')
    await eve.say(room, 'yes', { 'm.relates_to': asks.content['m.relates_to'] })
    await bea.react(room, asks.eventId, '✅')
    await bea.hears(room, 'A reaction is not enough here')
    expect(burnt).toEqual([])
    await bea.say(room, 'yes', { 'm.relates_to': asks.content['m.relates_to'] })
    await bea.hears(room, 'It is ashes.')
    expect(burnt).toEqual(['a letter'])
    const told = ({ body }: { body: string }) => body.includes('A reaction is not enough')
    expect(bea.seen(room).filter(told)).toHaveLength(1)
  })

  // Two hundred on one database, and as many as a suite has time for on the other.
  const each = databaseUrl === undefined ? 20 : 6

  it('are each speaker’s own, when ten people say two hundred things in one group at once', async () => {
    const names = Array.from({ length: 10 }, (_, n) => `many${n}`)
    const [first, ...others] = await Promise.all(names.map((name) => open.person(name)))
    if (!first) throw new Error('Nobody is there.')
    const everybody = [first, ...others]
    const invite = [oracleId, ...others.map(({ userId }) => userId)]
    const room = await first.createRoom({ invite })
    for (const other of others) await other.join(room)
    await waitFor(async () => open.server.room(room).membership(oracleId) === 'join')
    const users = await Promise.all(everybody.map(() => open.app.user()))
    for (const [n, user] of users.entries()) {
      const token = open.server.accounts.mintOpenId(everybody[n]?.userId ?? '')
      expect((await user.post('/messaging/identity', token)).status).toBe(200)
      // Every other one has given the oracle the right.
      if (n % 2 === 0) await store(user)
    }
    open.answer = ({ messages }) => {
      const last = messages.at(-1)
      if (last?.role === 'tool') return 'Done.'
      const to = /pay (\w+)/.exec(last?.content ?? '')?.[1] ?? 'nobody'
      return call('pay', { to })
    }
    // One after the other in turn: many words of one person alone would be taken for two programs that talk.
    const said = Array.from({ length: each }, (_, m) => m).flatMap((m) =>
      everybody.map((person, n) => ({ person, words: `oracle: pay p${n}x${m}` })),
    )
    await Promise.all(said.map(({ person, words }) => person.say(room, words)))
    // At the server: so much at once is more than a person's client reads in one piece.
    const answers = () => {
      const shown = new Map<string, string>()
      for (const { sender, event_id: id, content } of open.server.room(room).events)
        if (sender === oracleId)
          shown.set(
            content['m.relates_to']?.rel_type === 'm.replace'
              ? content['m.relates_to'].event_id
              : id,
            String(content['m.new_content']?.body ?? content.body),
          )
      return [...shown.values()].filter((text) => text === 'Done.')
    }
    await expect.poll(() => answers().length, { timeout: 100_000 }).toBe(said.length)
    open.answer = undefined
    for (const [n, { did }] of users.entries()) {
      const own = n % 2 === 0 ? Array.from({ length: each }, (_, m) => `p${n}x${m}`) : []
      // A tool that only reads may run again where another process goes on.
      expect([...new Set(paidBy(did))].sort()).toEqual(own.sort())
    }
  }, 150_000)
})
