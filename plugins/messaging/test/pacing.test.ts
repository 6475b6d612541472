import { expect, it, describe } from 'vitest'
import { OpenOracle, oracleId } from '../../../test/support/open-oracle.ts'

const words = Array.from({ length: 160 }, (_, n) => `word${n}`).join(' ')

describe('an answer of many words', () => {
  // As Synapse limits a sender: nine at once, then one in about five seconds; faster here, for the test to end.
  const open = new OpenOracle({ homeserver: { sends: { burst: 4, perSecond: 1 } } })

  it('has twenty edits at most, each of them newer, and its last words also where the server limits it', async () => {
    const ann = await open.person('ann')
    const room = await open.directRoom(ann, false)
    open.replies.push({ text: words, paceMs: 40 })
    await ann.say(room, 'Say much')
    await ann.hears(room, ({ sender, body }) => sender === oracleId && body === words)
    const shown = open.server
      .room(room)
      .events.filter(({ sender, type }) => sender === oracleId && type === 'm.room.message')
      .map(({ content }) => String(content['m.new_content']?.body ?? content.body))
    expect(shown.length).toBeGreaterThan(2)
    expect(shown.length).toBeLessThanOrEqual(21)
    for (const [n, text] of shown.entries()) {
      expect(words.startsWith(text)).toBe(true)
      expect(text.length).toBeGreaterThan(shown[n - 1]?.length ?? 0)
    }
    expect(open.server.refused.some((line) => line.includes('429'))).toBe(true)
  })

  it('goes on in a next message where it is longer than one', async () => {
    open.server.sends = undefined
    const bob = await open.person('bob')
    const room = await open.directRoom(bob)
    const long = Array.from({ length: 3_000 }, (_, n) => `part${n}`).join(' ')
    open.replies.push({ text: [long] })
    await bob.say(room, 'Say very much')
    await bob.hears(room, 'part2999')
    const said = bob.seen(room).filter(({ sender }) => sender === oracleId)
    expect(said.length).toBeGreaterThan(1)
    expect(said.map(({ body }) => body).join(' ')).toBe(long)
  })

  it('is that to other words, when a message is edited while it waits', async () => {
    const cid = await open.person('cid')
    const room = await open.directRoom(cid)
    open.replies.push({ text: words, paceMs: 40 }, 'To the second words.')
    await cid.say(room, 'First')
    await cid.hears(room, 'word3')
    const waits = await cid.say(room, 'Waiting words')
    const edit = {
      'm.new_content': { msgtype: 'm.text', body: 'Second words' },
      'm.relates_to': { rel_type: 'm.replace', event_id: waits },
    }
    await cid.say(room, '* Second words', edit)
    await cid.hears(room, 'To the second words.')
    const asked = JSON.stringify(open.model.requests.at(-1)?.messages)
    expect(asked).toContain('Second words')
    expect(asked).not.toContain('Waiting words')
    // Later ones change nothing.
    const before = open.model.requests.length
    await cid.say(room, '* Third words', {
      'm.new_content': { msgtype: 'm.text', body: 'Third words' },
      'm.relates_to': { rel_type: 'm.replace', event_id: waits },
    })
    open.replies.push('A new one.')
    await cid.say(room, 'New words')
    await cid.hears(room, 'A new one.')
    expect(open.model.requests.length).toBe(before + 1)
    expect(JSON.stringify(open.model.requests.at(-1)?.messages)).not.toContain('Third words')
  })

  it('ends with its session, when the session of the room is deleted over HTTP', async () => {
    const dan = await open.person('dan')
    const room = await open.directRoom(dan)
    const user = await open.app.user()
    await user.post('/messaging/identity', open.server.accounts.mintOpenId(dan.userId))
    open.replies.push('I keep it.', 'I know nothing.')
    await dan.say(room, 'The code is nine.')
    await dan.hears(room, 'I keep it.')
    const [session] = (await user.get('/sessions')).body.sessions
    expect((await user.delete(`/sessions/${session.sessionId}`)).status).toBe(200)
    await dan.say(room, 'What is the code?')
    await dan.hears(room, 'I know nothing.')
    expect(JSON.stringify(open.model.requests.at(-1)?.messages)).not.toContain('nine')
  })
})
