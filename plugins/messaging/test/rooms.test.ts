import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenOracle, oracleId, waitFor } from '../../../test/support/open-oracle.ts'

/** How often the tool was carried out. */
let opened = 0

const doors = definePlugin({
  name: 'doors',
  summary: 'Opens doors.',
  visibility: 'always',
  tools: {
    open_door: {
      description: 'Opens a door.',
      input: z.object({ door: z.string() }),
      approve: true,
      run: ({ door }) => `${door} is open, number ${++opened}`,
    },
    open_safe: {
      description: 'Opens the safe.',
      input: z.object({}),
      can: { can: 'safe/open' },
      run: () => 'open',
    },
  },
})

await onEachDatabase('rooms', ({ databaseUrl }) => {
  const open = new OpenOracle({ databaseUrl, plugins: [doors] })
  const oracleSaid = (seen: readonly { sender: string }[]) =>
    seen.filter(({ sender }) => sender === oracleId)

  it('answers an encrypted question by one message, of which the server reads no word', async () => {
    const ann = await open.person('ann')
    const room = await open.directRoom(ann)
    open.replies.push({ text: 'The capital of Zambia is Lusaka.', paceMs: 200 })
    await ann.say(room, 'What is the capital of Zambia?')
    const answer = await ann.hears(room, 'The capital of Zambia is Lusaka.')
    expect(answer.sender).toBe(oracleId)
    expect(answer.edits).toBeGreaterThan(0)
    expect(answer.content['m.mentions']).toEqual({})
    expect(oracleSaid(ann.seen(room))).toHaveLength(1)
    const kept = JSON.stringify(open.server.room(room).events)
    expect(kept).not.toContain('Lusaka')
    expect(kept).not.toContain('capital')
    const typed = () => open.server.seen.filter(({ path }) => path.includes('/typing/'))
    await expect.poll(() => typed().at(-1)?.body).toEqual({ typing: false })
    expect(open.app.log.join('\n')).not.toContain('Lusaka')
  })

  it('answers in a room without encryption, and goes on in it once it has some', async () => {
    const bob = await open.person('bob')
    const room = await open.directRoom(bob, false)
    open.replies.push('in the open', 'under seal')
    await bob.say(room, 'first')
    await bob.hears(room, 'in the open')
    await bob.encryptRoom(room)
    await bob.say(room, 'second')
    await bob.hears(room, 'under seal')
    const kept = JSON.stringify(open.server.room(room).events)
    expect(kept).toContain('in the open')
    expect(kept).not.toContain('under seal')
  })

  it('goes on in one conversation, joins what is written at once, and begins another with !new', async () => {
    const cid = await open.person('cid')
    const room = await open.directRoom(cid)
    const asked = () => open.model.requests.at(-1)?.messages.map(({ content }) => content) ?? []
    open.replies.push('joined', 'remembered', 'forgotten')
    await cid.say(room, 'I am Cid.')
    await cid.say(room, 'I like tea.')
    await cid.hears(room, 'joined')
    expect(asked().at(-1)).toContain('I am Cid.\nI like tea.')
    await cid.say(room, 'Who am I?')
    await cid.hears(room, 'remembered')
    expect(asked().join()).toContain('I am Cid.')
    await cid.say(room, '!new')
    await cid.hears(room, 'A new conversation.')
    await cid.say(room, 'And now?')
    await cid.hears(room, 'forgotten')
    expect(asked().join()).not.toContain('I am Cid.')
  })

  it('answers a mention in a group in a thread of its own, and nobody else’s words', async () => {
    const [dan, eve] = [await open.person('dan'), await open.person('eve')]
    const room = await dan.createRoom({ invite: [oracleId, eve.userId], encrypted: true })
    await eve.join(room)
    await waitFor(async () => open.server.room(room).membership(oracleId) === 'join')
    await dan.hasMember(room, oracleId)
    open.replies.push('Hello Eve.', 'Again.')
    await dan.say(room, 'Shall we ask?')
    const mention = { 'm.mentions': { user_ids: [oracleId] } }
    const asked = await eve.say(room, 'oracle: hello', mention)
    const answer = await eve.hears(room, 'Hello Eve.')
    const relation = answer.content['m.relates_to']
    expect(relation).toMatchObject({ rel_type: 'm.thread', event_id: asked, is_falling_back: true })
    expect(oracleSaid(eve.seen(room))).toHaveLength(1)
    const thread = { 'm.relates_to': { rel_type: 'm.thread', event_id: asked } }
    await dan.say(room, 'That is not for the oracle.', thread)
    await eve.say(room, 'More, please.', thread)
    await eve.hears(room, 'Again.')
    expect(oracleSaid(eve.seen(room))).toHaveLength(2)
  })

  it('makes a group of a direct room that somebody joins, and carries nothing over', async () => {
    const [fay, gus] = [await open.person('fay'), await open.person('gus')]
    const room = await open.directRoom(fay)
    open.replies.push('I will keep it.', 'I know of nothing.')
    await fay.say(room, 'My secret is seven.')
    await fay.hears(room, 'I will keep it.')
    await fay.api.post(`/_matrix/client/v3/rooms/${encodeURIComponent(room)}/invite`, {
      user_id: gus.userId,
    })
    await gus.join(room)
    await gus.hears(room, 'Others read along here now.')
    await gus.say(room, 'oracle: what is the secret?')
    await gus.hears(room, 'I know of nothing.')
    const asked = JSON.stringify(open.model.requests.at(-1)?.messages)
    expect(asked).not.toContain('seven')
  })

  it('asks a person by a message, takes words and reactions of that person alone, once', async () => {
    const [hal, ida] = [await open.person('hal'), await open.person('ida')]
    const room = await hal.createRoom({ invite: [oracleId, ida.userId] })
    await ida.join(room)
    await waitFor(async () => open.server.room(room).membership(oracleId) === 'join')
    await hal.hasMember(room, oracleId)
    const before = opened
    open.replies.push(call('open_door', { door: 'north' }), 'The north door is open.')
    await hal.say(room, 'oracle: open the north door')
    const asks = await hal.hears(room, 'May I run')
    expect(asks.body).toContain('✅ or yes · ❌ or no')
    await ida.react(room, asks.eventId, '✅')
    await ida.say(room, 'yes', { 'm.relates_to': asks.content['m.relates_to'] })
    await hal.react(room, asks.eventId, '✅')
    await hal.react(room, asks.eventId, '👍')
    await hal.hears(room, 'The north door is open.')
    expect(opened).toBe(before + 1)
  })

  it('wants words in an encrypted room, and passes a reason on', async () => {
    const jan = await open.person('jan')
    const room = await open.directRoom(jan)
    const before = opened
    open.replies.push(call('open_door', { door: 'south' }), 'Then it stays closed.')
    await jan.say(room, 'Open the south door')
    const asks = await jan.hears(room, 'May I run')
    await jan.react(room, asks.eventId, '✅')
    await jan.hears(room, 'A reaction is not enough here')
    expect(opened).toBe(before)
    await jan.say(room, 'no, because it rains')
    await jan.hears(room, 'Then it stays closed.')
    expect(opened).toBe(before)
    expect(JSON.stringify(open.model.requests.at(-1)?.messages)).toContain('it rains')
  })

  it('decides after a restart what was asked before it', async () => {
    const kay = await open.person('kay')
    const room = await open.directRoom(kay)
    const before = opened
    open.replies.push(call('open_door', { door: 'west' }), 'The west door is open.')
    await kay.say(room, 'Open the west door')
    await kay.hears(room, 'May I run')
    await open.app.again()
    await open.loaded()
    await kay.say(room, 'Yes.')
    await kay.hears(room, 'The west door is open.')
    expect(opened).toBe(before + 1)
  })

  it('takes back what a person takes back: the answer, the transcript, the next request', async () => {
    const lea = await open.person('lea')
    const room = await open.directRoom(lea)
    open.replies.push('Your number is forty-two.', 'I do not know it.')
    const said = await lea.say(room, 'My number is forty-two.')
    const answer = await lea.hears(room, 'Your number is forty-two.')
    await lea.redact(room, said)
    await lea.hears(room, ({ eventId, isRedacted }) => eventId === answer.eventId && isRedacted)
    await lea.say(room, 'What is my number?')
    await lea.hears(room, 'I do not know it.')
    expect(JSON.stringify(open.model.requests.at(-1)?.messages)).not.toContain('forty-two')
  })

  it('gives the same event one answer, however often it comes, and answers what was said while it was away', async () => {
    const mia = await open.person('mia')
    const room = await open.directRoom(mia)
    await open.app.crash()
    for (let n = 1; n <= 60; n++) await mia.say(room, `line ${n}`)
    open.replies.push('All sixty.')
    await open.app.again()
    await mia.hears(room, 'All sixty.')
    const asked = open.model.requests.at(-1)?.messages.at(-1)?.content ?? ''
    for (const n of [1, 30, 60]) expect(asked).toContain(`line ${n}`)
    await open.app.again()
    await open.loaded()
    open.replies.push('Yes, I am here.')
    await mia.say(room, 'Still there?')
    await mia.hears(room, 'Yes, I am here.')
    expect(oracleSaid(mia.seen(room)).length).toBeLessThanOrEqual(3)
  })

  it('answers no notice and no agent', async () => {
    const ned = await open.person('ned')
    const room = await open.directRoom(ned)
    const asked = open.model.requests.length
    await ned.say(room, 'beep', { msgtype: 'm.notice' })
    await ned.say(room, 'boop', { 'oracle-runtime.agent': true })
    open.replies.push('A person at last.')
    await ned.say(room, 'hello')
    await ned.hears(room, 'A person at last.')
    expect(open.model.requests.length).toBe(asked + 1)
  })

  it('reads nothing into events that are no messages', async () => {
    const oda = await open.person('oda')
    const room = await open.directRoom(oda, false)
    const asked = open.model.requests.length
    const bad = [
      {},
      { body: 7, msgtype: 'm.text' },
      { body: '', msgtype: 'm.text' },
      { body: 'x', msgtype: 'm.unknown' },
      { body: '\u0000\u0007', msgtype: 'm.text' },
      {
        body: 'edit',
        msgtype: 'm.text',
        'm.relates_to': { rel_type: 'm.replace', event_id: '$x' },
      },
      { body: 'deep', msgtype: 'm.location', 'm.relates_to': { 'm.in_reply_to': [[[[]]]] } },
    ]
    for (const content of bad) await oda.send(room, 'm.room.message', content)
    open.replies.push('Only this.')
    await oda.say(room, 'hello', { 'm.mentions': { user_ids: [7, {}] } })
    await oda.hears(room, 'Only this.')
    expect(open.model.requests.length).toBe(asked + 1)
  })
})
