import { expect, it } from 'vitest'
import { call, testApp } from '#core/testing'
import { onEachDatabase, onPostgres } from '../support/each-database.ts'
import { OpenOracle, oracleId, waitFor } from '../support/open-oracle.ts'
import preferences from '../../plugins/preferences/index.ts'

await onEachDatabase('preferences in rooms', ({ databaseUrl }) => {
  const open = new OpenOracle({ databaseUrl, plugins: [preferences] })
  const prompt = () => open.model.requests.at(-1)?.messages[0]?.content ?? ''
  const mention = { 'm.mentions': { user_ids: [oracleId] } }

  it('hold in the direct room as over HTTP and back, and belong to the room in a group', async () => {
    const [ann, bob] = [await open.person('ann'), await open.person('bob')]
    const user = await open.app.user()
    await user.post('/messaging/identity', open.server.accounts.mintOpenId(ann.userId))
    expect((await user.patch('/user-preferences', { tone: 'warm' })).status).toBe(200)
    const own = await open.directRoom(ann)
    open.replies.push('A warm hello.')
    await ann.say(own, 'hello')
    await ann.hears(own, 'A warm hello.')
    expect(prompt()).toContain('Tone: warm.')
    open.replies.push(call('set_user_preferences', { language: 'sw' }), 'Sawa.')
    await ann.say(own, 'Swahili, please')
    await ann.hears(own, 'Sawa.')
    const kept = await user.get('/user-preferences')
    expect(kept.body.userPreferences).toEqual({ tone: 'warm', language: 'sw' })
    const group = await ann.createRoom({ invite: [oracleId, bob.userId] })
    await bob.join(group)
    await waitFor(async () => open.server.room(group).membership(oracleId) === 'join')
    open.replies.push(call('set_user_preferences', { length: 'one line' }), 'Short it is.')
    await ann.say(group, 'oracle: be short', mention)
    await ann.hears(group, 'Short it is.')
    expect(prompt()).not.toContain('Tone: warm.')
    open.replies.push('Short for Bob.')
    await bob.say(group, 'oracle: and for me?', mention)
    await bob.hears(group, 'Short for Bob.')
    expect(prompt()).toContain('Length of answers: one line.')
    open.replies.push(call('set_user_preferences', { userName: 'Annie' }), 'Not here.')
    await ann.say(group, 'oracle: call me Annie', mention)
    await ann.hears(group, 'Not here.')
    expect(JSON.stringify(open.model.requests.at(-1)?.messages)).toContain('with others')
    open.replies.push('As before.')
    await ann.say(own, 'and here?')
    await ann.hears(own, 'As before.')
    expect(prompt()).not.toContain('one line')
    expect(prompt()).toContain('Tone: warm.')
    // Over HTTP each has the own conversations, and nobody those of the other.
    const sessions = (await user.get('/sessions')).body.sessions
    expect(sessions.length).toBeGreaterThanOrEqual(2)
    const text = JSON.stringify(
      await Promise.all(
        sessions.map(({ sessionId }: { sessionId: string }) => user.get(`/messages/${sessionId}`)),
      ),
    )
    expect(text).toContain('be short')
    expect(text).not.toContain('and for me?')
    // A restart changes nothing of it.
    await open.app.again()
    await open.loaded()
    open.replies.push('Still short.')
    await bob.say(group, 'oracle: still?', mention)
    await bob.hears(group, 'Still short.')
    expect(prompt()).toContain('Length of answers: one line.')
  })

  it('are those over HTTP in the room whose alias names the pair, which is the room of sessions over HTTP', async () => {
    const user = await open.app.user()
    const person = await open.person('pia')
    await user.post('/messaging/identity', open.server.accounts.mintOpenId(person.userId))
    expect((await user.post('/sessions')).body.roomId).toBeUndefined()
    const authorization = `Bearer ${person.api.token}`
    const asked = { did: user.did, oracleDid: open.app.oracleDid }
    const made = await open.app.post('/spaces/oracle/create', asked, { authorization })
    const { roomId } = made.body
    const name = [user.did, open.app.oracleDid].map((did) => did.replaceAll(':', '-')).join('_')
    expect(open.server.aliases.get(`#${name}:home.test`)?.roomId).toBe(roomId)
    expect((await user.post('/sessions')).body.roomId).toBe(roomId)
    await user.patch('/user-preferences', { agentName: 'Mashariki' })
    await person.join(roomId)
    open.replies.push('Here.')
    await person.say(roomId, 'hello')
    await person.hears(roomId, 'Here.')
    expect(prompt()).toContain('They call you Mashariki.')
  })
})

await onPostgres('preferences in rooms, on two replicas', ({ databaseUrl }) => {
  const env = { ORACLE_MNEMONIC: 'one oracle of two replicas' }
  const open = new OpenOracle({ databaseUrl, env, plugins: [preferences] })
  const prompt = () => open.model.requests.at(-1)?.messages[0]?.content ?? ''

  it('are the same whichever replica was told of them, and whichever answers', async () => {
    const second = await testApp(open.appOptions())
    try {
      await open.loaded(second)
      const person = await open.person('tia')
      const user = await open.app.user('tia of two replicas')
      await user.post('/messaging/identity', open.server.accounts.mintOpenId(person.userId))
      const room = await open.directRoom(person)
      open.replies.push('Hello.')
      await person.say(room, 'hello')
      await person.hears(room, 'Hello.')
      // Told over HTTP to the replica that does not answer in the rooms.
      const elsewhere = await second.user('tia of two replicas')
      expect((await elsewhere.patch('/user-preferences', { tone: 'warm' })).status).toBe(200)
      open.replies.push(call('set_user_preferences', { language: 'sw' }), 'Sawa.')
      await person.say(room, 'Swahili, please')
      await person.hears(room, 'Sawa.')
      expect(prompt()).toContain('Tone: warm.')
      const kept = { tone: 'warm', language: 'sw' }
      expect((await elsewhere.get('/user-preferences')).body.userPreferences).toEqual(kept)
      // The other one answers in the same room from now on.
      await open.app.crash()
      open.replies.push('Karibu.')
      await person.say(room, 'Who answers now?')
      await person.hears(room, 'Karibu.')
      expect(prompt()).toContain('Tone: warm.')
      expect(prompt()).toContain('Answer in sw.')
      expect((await elsewhere.get('/user-preferences')).body.userPreferences).toEqual(kept)
    } finally {
      await second.close()
    }
  }, 90_000)
})
