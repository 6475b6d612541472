import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, type TestUser } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenOracle } from '../../../test/support/open-oracle.ts'
import { openFile } from '../device/device.ts'

const barn = definePlugin({
  name: 'barn',
  summary: 'Tells of the barn.',
  routes: {
    'POST /barn/tell': {
      input: z.object({ text: z.string() }),
      run: ({ text }, { sessions, user }) =>
        sessions.say({ user: { did: user.did }, text, title: 'Barn', notify: true }),
    },
  },
})

await onEachDatabase('files', ({ databaseUrl }) => {
  const open = new OpenOracle({
    databaseUrl,
    plugins: [barn],
    env: { MESSAGING_MAX_FILE_BYTES: '2000' },
  })
  const asked = () => JSON.stringify(open.model.requests.at(-1)?.messages.at(-1))

  it('lets the model read an encrypted text file, and refuses one that was changed or is too large', async () => {
    const ann = await open.person('ann')
    const room = await open.directRoom(ann)
    const send = async (text: string, { isChanged = false, size = text.length } = {}) => {
      const { bytes, info } = ann.device.sealFile(Buffer.from(text, 'latin1'))
      const sent = Uint8Array.from(bytes)
      if (isChanged) sent[0] = (sent[0] ?? 0) ^ 1
      const url = await ann.api.upload(sent, 'application/octet-stream')
      await ann.send(room, 'm.room.message', {
        msgtype: 'm.file',
        body: 'notes.txt',
        file: { ...info, url },
        info: { mimetype: 'text/plain', size },
      })
    }
    open.replies.push('I read it.')
    await send('The harvest was 14 tonnes.')
    await ann.hears(room, 'I read it.')
    expect(asked()).toContain('What is in this file?')
    expect(asked()).toContain('The harvest was 14 tonnes.')
    await send('The harvest was 15 tonnes.', { isChanged: true })
    await ann.hears(room, '"notes.txt" could not be fetched.')
    expect(asked()).not.toContain('15 tonnes')
    await send('x'.repeat(2_001))
    await ann.hears(room, 'A file has 2000 bytes at most.')
    expect(asked()).not.toContain('xxx')
    // The size that a message says is its sender's word: the bytes are counted, too.
    const failed = () =>
      ann.seen(room).filter(({ body }) => body === '"notes.txt" could not be fetched.').length
    await send('y'.repeat(2_001), { size: 10 })
    await expect.poll(failed).toBe(2)
    expect(asked()).not.toContain('yyy')
    const asks = open.model.requests.length
    await send('\u0000\u0001\u00fe\u00ff of no kind')
    await ann.hears(room, '"notes.txt" is of a type that is not known.')
    expect(open.model.requests).toHaveLength(asks)
    open.replies.push('All of it.')
    await send('z'.repeat(2_000))
    await ann.hears(room, 'All of it.')
    expect(asked()).toContain('z'.repeat(2_000))
  })

  it('sends a text file that the person opens, and no larger one, and offers that in rooms alone', async () => {
    const dora = await open.person('dora')
    for (const encrypted of [true, false]) {
      const room = await open.directRoom(dora, encrypted)
      const content = 'Sow in March,\nharvest in August. ✓'
      const file = { name: '../plan.md', content, type: 'text/markdown' }
      open.replies.push(call('send_file', file), 'There it is.')
      await dora.say(room, 'Send me the plan')
      await dora.hears(room, 'There it is.')
      const sent = await dora.hears(room, ({ content }) => content.msgtype === 'm.file')
      expect(sent.body).toBe('..-plan.md')
      expect(sent.content.info).toEqual({
        mimetype: 'text/markdown',
        size: Buffer.byteLength(content),
      })
      const uri: string = sent.content.file?.url ?? sent.content.url
      expect(sent.content.file === undefined).toBe(!encrypted)
      const bytes = await dora.api.download(uri, 10_000)
      if (!bytes) throw new Error('The file is not there.')
      const plain = encrypted ? await openFile(bytes, sent.content.file) : bytes
      expect(Buffer.from(plain).toString()).toBe(content)
      if (encrypted) expect(Buffer.from(bytes).toString('latin1')).not.toContain('harvest')
    }
    const room = await open.directRoom(dora)
    const large = { name: 'large.txt', content: 'x'.repeat(2_001) }
    open.replies.push(call('send_file', large), 'It is too large.')
    await dora.say(room, 'Send me much')
    await dora.hears(room, 'It is too large.')
    expect(asked()).toContain('2000 bytes at most')
    const user = await open.app.user()
    open.replies.push(call('send_file', { name: 'a.txt', content: 'a' }), 'Not here.')
    await user.say('Send me a file')
    expect(asked()).toContain('send_file')
    expect(asked()).not.toContain('"sent"')
  })

  it('brings a notice of another plugin into the direct room, once, and nowhere without one', async () => {
    const finn = await open.person('finn')
    const [user, other] = [await open.app.user(), await open.app.user()]
    await user.post('/messaging/identity', open.server.accounts.mintOpenId(finn.userId))
    const room = await open.directRoom(finn)
    open.replies.push('Hello Finn.')
    await finn.say(room, 'hello')
    await finn.hears(room, 'Hello Finn.')
    for (const who of [user, other]) await who.post('/sessions')
    const tell = (who: TestUser, text: string) => who.post('/barn/tell', { text })
    expect((await tell(other, 'Nobody hears this.')).status).toBeLessThan(300)
    expect((await tell(user, 'The barn door is open.')).status).toBeLessThan(300)
    await finn.hears(room, 'The barn door is open.')
    expect((await tell(user, 'Now it is closed.')).status).toBeLessThan(300)
    await finn.hears(room, 'Now it is closed.')
    const told = finn.seen(room).filter(({ body }) => body.includes('barn door'))
    expect(told).toHaveLength(1)
    expect(JSON.stringify(open.server.room(room).events)).not.toContain('barn door')
  })

  it('fetches a file for nobody who did not send it in a room', async () => {
    const secret = await open
      .person('bob')
      .then((bob) => bob.api.upload(Buffer.from('secret'), 'text/plain'))
    const user = await open.app.user()
    open.replies.push('There is nothing to read.')
    const attachments = [{ mxcUri: secret, name: 'x.txt', mimetype: 'text/plain' }]
    await user.say('Read this', { body: { attachments } })
    expect(asked()).toContain('Read this')
    expect(asked()).not.toContain('secret')
  })
})
