import { expect, it } from 'vitest'
import { testApp } from '#core/testing'
import { onEachDatabase, onPostgres } from '../../../test/support/each-database.ts'
import { OpenOracle, oracleId } from '../../../test/support/open-oracle.ts'

const poem = Array.from({ length: 40 }, (_, n) => `word${n}`).join(' ')

await onEachDatabase('a crash', ({ databaseUrl }) => {
  const open = new OpenOracle({ databaseUrl })

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
})

await onPostgres('two replicas', ({ databaseUrl }) => {
  const open = new OpenOracle({ databaseUrl })

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
