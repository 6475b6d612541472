import { expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenOracle } from '../../../test/support/open-oracle.ts'

await onEachDatabase('files', ({ databaseUrl }) => {
  const open = new OpenOracle({ databaseUrl, env: { MESSAGING_MAX_FILE_BYTES: '2000' } })
  const asked = () => JSON.stringify(open.model.requests.at(-1)?.messages.at(-1))

  it('lets the model read an encrypted text file, and refuses one that was changed or is too large', async () => {
    const ann = await open.person('ann')
    const room = await open.directRoom(ann)
    const send = async (text: string, isChanged = false) => {
      const { bytes, info } = ann.device.sealFile(Buffer.from(text))
      const sent = Uint8Array.from(bytes)
      if (isChanged) sent[0] = (sent[0] ?? 0) ^ 1
      const url = await ann.api.upload(sent, 'application/octet-stream')
      const mimetype = 'text/plain'
      await ann.send(room, 'm.room.message', {
        msgtype: 'm.file',
        body: 'notes.txt',
        file: { ...info, url },
        info: { mimetype, size: text.length },
      })
    }
    open.replies.push('I read it.')
    await send('The harvest was 14 tonnes.')
    await ann.hears(room, 'I read it.')
    expect(asked()).toContain('What is in this file?')
    expect(asked()).toContain('The harvest was 14 tonnes.')
    await send('The harvest was 15 tonnes.', true)
    await ann.hears(room, '"notes.txt" could not be fetched.')
    expect(asked()).not.toContain('15 tonnes')
    await send('x'.repeat(2_001))
    await ann.hears(room, 'A file has 2000 bytes at most.')
    expect(asked()).not.toContain('xxx')
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
