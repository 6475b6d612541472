import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenOracle, oracleId, waitFor } from '../../../test/support/open-oracle.ts'
import type { Person } from '../testing/person.ts'

const many = Array.from({ length: 160 }, (_, n) => `secret${n}`).join(' ')
/** Longer than one message of a room. */
const long = Array.from({ length: 3_000 }, (_, n) => `secret${n}`).join(' ')

const doors = definePlugin({
  name: 'doors',
  summary: 'Opens doors.',
  visibility: 'always',
  tools: {
    open_door: {
      description: 'Opens a door.',
      input: z.object({ door: z.string() }),
      approve: true,
      run: ({ door }) => `${door} is open`,
    },
  },
})

await onEachDatabase('words that are taken back', ({ databaseUrl }) => {
  const open = new OpenOracle({ databaseUrl, plugins: [doors] })
  const asked = () => JSON.stringify(open.model.requests.at(-1)?.messages)
  const isBare = (person: Person, room: string) =>
    person
      .seen(room)
      .filter(({ sender }) => sender === oracleId)
      .every(({ isRedacted }) => isRedacted)

  it('are gone while their turn is under way: from the room, the transcript and the next request', async () => {
    const ann = await open.person('ann')
    const room = await open.directRoom(ann)
    const user = await open.app.user()
    await user.post('/messaging/identity', open.server.accounts.mintOpenId(ann.userId))
    open.replies.push({ text: many, paceMs: 50 }, 'I know of none.')
    const said = await ann.say(room, 'My secret is a goat.')
    await ann.hears(room, 'secret3')
    await ann.redact(room, said)
    await ann.hears(room, ({ sender, isRedacted }) => sender === oracleId && isRedacted)
    const [session] = (await user.get('/sessions')).body.sessions
    const transcript = async () =>
      JSON.stringify((await user.get(`/messages/${session.sessionId}`)).body)
    await waitFor(async () => (await transcript()).includes('[removed]'))
    expect(await transcript()).not.toMatch(/goat|secret\d/)
    expect(open.server.room(room).events.filter(({ content }) => content.ciphertext)).toEqual([])
    await ann.say(room, 'Which word of mine do you know?')
    await ann.hears(room, 'I know of none.')
    expect(asked()).not.toMatch(/goat|secret\d/)
    expect(isBare(ann, room)).toBe(false)
  })

  it('take every message of their answer along, also where two questions are one turn', async () => {
    const bob = await open.person('bob')
    const room = await open.directRoom(bob)
    open.replies.push({ text: [long] }, 'Nothing.')
    await bob.say(room, 'The first half of it is a goat,')
    const second = await bob.say(room, 'and the second half is a hen.')
    await bob.hears(room, 'secret2999')
    expect(bob.seen(room).filter(({ sender }) => sender === oracleId).length).toBeGreaterThan(1)
    await bob.redact(room, second)
    await waitFor(async () => isBare(bob, room))
    await bob.say(room, 'What was it?')
    await bob.hears(room, 'Nothing.')
    expect(asked()).not.toMatch(/goat|a hen|secret\d/)
  })

  it('take the question along that waits for a person, and what followed from it', async () => {
    const cid = await open.person('cid')
    const room = await open.directRoom(cid, false)
    open.replies.push(call('open_door', { door: 'secret7' }), 'The door secret7 is open.')
    const said = await cid.say(room, 'Open the door of the goat')
    await cid.hears(room, 'May I run')
    await cid.say(room, 'yes')
    await cid.hears(room, 'The door secret7 is open.')
    await cid.redact(room, said)
    await waitFor(async () => isBare(cid, room))
    open.replies.push(call('open_door', { door: 'secret8' }), 'A turn of its own.')
    const again = await cid.say(room, 'Open the other door')
    await cid.hears(room, 'secret8')
    await cid.redact(room, again)
    await waitFor(async () => isBare(cid, room))
    // Nothing waits for this word any more.
    await cid.say(room, 'yes')
    await cid.hears(room, 'A turn of its own.')
    expect(asked()).not.toMatch(/goat|secret\d/)
  })

  it('leave other words in their place: an edit is answered in its thread, also without a mention', async () => {
    const [dan, eve] = [await open.person('dan'), await open.person('eve')]
    const direct = await open.directRoom(dan)
    const group = await dan.createRoom({ invite: [oracleId, eve.userId], encrypted: true })
    await eve.join(group)
    await waitFor(async () => open.server.room(group).membership(oracleId) === 'join')
    await dan.hasMember(group, oracleId)
    const edit = (eventId: string, body: string) => ({
      'm.new_content': { msgtype: 'm.text', body },
      'm.relates_to': { rel_type: 'm.replace', event_id: eventId },
    })
    open.replies.push('In the thread.', 'Among others.')
    const root = await dan.say(direct, '!status')
    await dan.hears(direct, 'I take you')
    const inThread = { rel_type: 'm.thread', event_id: root }
    const first = await dan.say(direct, 'A goat?', { 'm.relates_to': inThread })
    await dan.say(direct, '* A cow?', edit(first, 'A cow?'))
    const answer = await dan.hears(direct, 'In the thread.')
    expect(answer.content['m.relates_to']).toMatchObject(inThread)
    expect(asked()).toContain('A cow?')
    expect(asked()).not.toContain('goat')
    const mention = { 'm.mentions': { user_ids: [oracleId] } }
    const other = await dan.say(group, 'oracle: a goat?', mention)
    await dan.say(group, '* a hen?', edit(other, 'a hen?'))
    const among = await dan.hears(group, 'Among others.')
    expect(among.content['m.relates_to']).toMatchObject({ rel_type: 'm.thread', event_id: other })
    expect(asked()).toContain('a hen?')
    expect(asked()).not.toContain('goat')
  })
})
