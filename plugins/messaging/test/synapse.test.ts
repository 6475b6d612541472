import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import {
  call,
  type ScriptedModel,
  type ScriptedStep,
  scriptedModel,
  testApp,
  type TestApp,
} from '#core/testing'
import { messagingEnv, oracleId, waitFor } from '../../../test/support/open-oracle.ts'
import { openFile } from '../device/device.ts'
import messaging from '../index.ts'
import { path } from '../server/api.ts'
import { Person, type SeenMessage } from '../testing/person.ts'

// `plugins/messaging/testing/synapse.sh` starts a Synapse with the accounts that are used here.
const url = process.env.SYNAPSE_URL ?? ''

const opened: string[] = []
const doors = definePlugin({
  name: 'doors',
  summary: 'Opens doors.',
  visibility: 'always',
  tools: {
    open_door: {
      description: 'Opens a door.',
      input: z.object({ door: z.string() }),
      approve: true,
      run: ({ door }) => `open, as number ${opened.push(door)}`,
    },
  },
})

/** An oracle on Synapse that gives these answers, with an account of the server. */
async function oracleOf(
  answers: ScriptedStep[] | ScriptedModel,
  name = 'oracle',
  more: Readonly<Record<string, string>> = {},
): Promise<TestApp> {
  const account = {
    MATRIX_ORACLE_ADMIN_USER_ID: `@${name}:home.test`,
    MATRIX_ORACLE_ADMIN_PASSWORD: `${name}-password`,
  }
  const env = { ...messagingEnv(url), ...account, ...more }
  const plugins = [messaging, doors]
  const model = Array.isArray(answers) ? scriptedModel(answers) : answers
  const app = await testApp({ plugins, model, fetch, env })
  await attends(app)
  return app
}

const attends = (app: TestApp) => waitFor(async () => (await app.get('/messaging')).status === 200)

const personOf = (name: string) => Person.open(url, `@${name}:home.test`, `${name}-password`)

/** Waits until an account has joined a room, and until this person's client knows of it. */
async function isThere(person: Person, room: string, account = oracleId): Promise<void> {
  await waitFor(async () => {
    const { joined } = await person.api.get(path`/rooms/${room}/joined_members`)
    return account in joined
  })
  await person.hasMember(room, account)
}

/** What the server keeps of a room, the oldest first. */
async function keptOf(person: Person, room: string): Promise<Record<string, any>[]> {
  const query = { dir: 'b', limit: '200' }
  const { chunk } = await person.api.get(path`/rooms/${room}/messages`, { query })
  return chunk.reverse()
}

const saidBy = (account: string, seen: readonly SeenMessage[]) =>
  seen.filter(({ sender }) => sender === account)
const inThread = (root: string) => ({ 'm.relates_to': { rel_type: 'm.thread', event_id: root } })

describe.skipIf(url === '')('a real Synapse', () => {
  it('carries an encrypted conversation, of which it can read no word, and a thread of it', async () => {
    await using _ = await oracleOf([
      { text: 'The capital of Zambia is Lusaka.', paceMs: 500 },
      'Nairobi is the capital of Kenya.',
    ])
    const ann = await personOf('ann')
    const room = await ann.createRoom({ invite: [oracleId], encrypted: true, direct: true })
    await isThere(ann, room)
    const typing: string[] = []
    const watching = ann.api
      .get(path`/sync`, { query: { timeout: '0' } })
      .then(async ({ next_batch: since }) => {
        const query = { since, timeout: '10000', filter: '{"room":{"timeline":{"limit":0}}}' }
        for (let n = 0; n < 20 && typing.length === 0; n++) {
          const { rooms, next_batch } = await ann.api.get(path`/sync`, { query })
          query.since = next_batch
          for (const event of rooms?.join?.[room]?.ephemeral?.events ?? [])
            if (event.type === 'm.typing') typing.push(...event.content.user_ids)
        }
      })
    const said = await ann.say(room, 'What is the capital of Zambia?')
    const answer = await ann.hears(room, 'The capital of Zambia is Lusaka.')
    expect(answer.sender).toBe(oracleId)
    expect(answer.edits).toBeGreaterThan(0)
    await watching
    expect(typing).toContain(oracleId)
    await ann.say(room, 'And of Kenya?', inThread(said))
    const threaded = await ann.hears(room, 'Nairobi is the capital of Kenya.')
    expect(threaded.content['m.relates_to']).toMatchObject(inThread(said)['m.relates_to'])
    expect(saidBy(oracleId, ann.seen(room))).toHaveLength(2)
    const kept = JSON.stringify(await keptOf(ann, room))
    expect(kept).toContain('m.room.encrypted')
    for (const word of ['capital', 'Zambia', 'Lusaka', 'Nairobi', 'm.text'])
      expect(kept).not.toContain(word)
    await ann.close()
  }, 60_000)

  it('carries a room without encryption, and hides what is said once the room has some', async () => {
    await using _ = await oracleOf(['in the open', 'under seal'])
    const ann = await personOf('ann')
    const room = await ann.createRoom({ invite: [oracleId], direct: true })
    await isThere(ann, room)
    await ann.say(room, 'first words')
    await ann.hears(room, 'in the open')
    await ann.encryptRoom(room)
    await ann.say(room, 'second words')
    await ann.hears(room, 'under seal')
    const kept = JSON.stringify(await keptOf(ann, room))
    for (const word of ['first words', 'in the open']) expect(kept).toContain(word)
    for (const word of ['second words', 'under seal']) expect(kept).not.toContain(word)
    await ann.close()
  }, 60_000)

  it('carries a group: a mention is answered in a thread, other words are not', async () => {
    await using _ = await oracleOf(['Hello Bob.', 'More of it.'])
    const [ann, bob] = [await personOf('ann'), await personOf('bob')]
    const room = await ann.createRoom({ invite: [oracleId, bob.userId], encrypted: true })
    await bob.join(room)
    await isThere(ann, room)
    await isThere(ann, room, bob.userId)
    await bob.hasMember(room, oracleId)
    await ann.say(room, 'Shall we ask?')
    const asked = await bob.say(room, 'oracle: hello', { 'm.mentions': { user_ids: [oracleId] } })
    for (const person of [ann, bob]) {
      const answer = await person.hears(room, 'Hello Bob.')
      expect(answer.content['m.relates_to']).toMatchObject(inThread(asked)['m.relates_to'])
    }
    await bob.say(room, 'More, please.', inThread(asked))
    await bob.hears(room, 'More of it.')
    expect(saidBy(oracleId, bob.seen(room))).toHaveLength(2)
    const kept = JSON.stringify(await keptOf(ann, room))
    for (const word of ['Shall we', 'Hello Bob', 'More']) expect(kept).not.toContain(word)
    await Promise.all([ann.close(), bob.close()])
  }, 60_000)

  it('keeps its keys and its place over a crash, and answers once what was said meanwhile', async () => {
    const model = scriptedModel(['At work.', 'All thirty.'])
    await using app = await oracleOf(model)
    const ann = await personOf('ann')
    const room = await ann.createRoom({ invite: [oracleId], encrypted: true, direct: true })
    await isThere(ann, room)
    await ann.say(room, 'Are you there?')
    await ann.hears(room, 'At work.')
    await app.crash()
    for (let n = 1; n <= 30; n++) await ann.say(room, `line ${n}`)
    await app.again()
    await attends(app)
    await ann.hears(room, 'All thirty.')
    const asked = String(model.requests.at(-1)?.messages.at(-1)?.content)
    expect(asked.split('\n')).toEqual(Array.from({ length: 30 }, (_, n) => `line ${n + 1}`))
    expect(saidBy(oracleId, ann.seen(room))).toHaveLength(2)
    await ann.close()
  }, 90_000)

  it('carries approvals: by reaction in the open, by words under encryption, of the person alone', async () => {
    opened.length = 0
    const asks = (door: string) => call('open_door', { door })
    await using _ = await oracleOf([asks('north'), 'North is open.', asks('south'), 'As you say.'])
    const [ann, bob] = [await personOf('ann'), await personOf('bob')]
    const room = await ann.createRoom({ invite: [oracleId, bob.userId] })
    await bob.join(room)
    await isThere(ann, room)
    await isThere(ann, room, bob.userId)
    await ann.say(room, 'oracle: open the north door')
    const question = await ann.hears(room, 'May I run')
    await bob.react(room, question.eventId, '✅')
    await bob.say(room, 'yes', { 'm.relates_to': question.content['m.relates_to'] })
    await ann.react(room, question.eventId, '✅')
    await ann.hears(room, 'North is open.')
    expect(opened).toEqual(['north'])
    const sealed = await ann.createRoom({ invite: [oracleId], encrypted: true, direct: true })
    await isThere(ann, sealed)
    await ann.say(sealed, 'Open the south door')
    const asked = await ann.hears(sealed, 'May I run')
    await ann.react(sealed, asked.eventId, '✅')
    await ann.hears(sealed, 'A reaction is not enough here')
    await ann.say(sealed, 'no')
    await ann.hears(sealed, 'As you say.')
    expect(opened).toEqual(['north'])
    await Promise.all([ann.close(), bob.close()])
  }, 90_000)

  it('takes back what a person takes back: the answer, and the words from what the model reads', async () => {
    const model = scriptedModel(['Your number is forty-two.', 'I do not know it.'])
    await using _ = await oracleOf(model)
    const ann = await personOf('ann')
    const room = await ann.createRoom({ invite: [oracleId], encrypted: true, direct: true })
    await isThere(ann, room)
    const said = await ann.say(room, 'My number is forty-two.')
    const answer = await ann.hears(room, 'Your number is forty-two.')
    await ann.redact(room, said)
    await ann.hears(room, ({ eventId, isRedacted }) => eventId === answer.eventId && isRedacted)
    await ann.say(room, 'What is my number?')
    await ann.hears(room, 'I do not know it.')
    expect(JSON.stringify(model.requests.at(-1)?.messages)).not.toContain('forty-two')
    await ann.close()
  }, 60_000)

  it('carries files both ways, sealed', async () => {
    const content = 'Sow in March,\nharvest in August. ✓'
    const file = { name: 'plan.md', content, type: 'text/markdown' }
    const model = scriptedModel(['I read it.', call('send_file', file), 'There it is.'])
    await using _ = await oracleOf(model)
    const ann = await personOf('ann')
    const room = await ann.createRoom({ invite: [oracleId], encrypted: true, direct: true })
    await isThere(ann, room)
    const notes = Buffer.from('The harvest was 14 tonnes.')
    const { bytes, info } = ann.device.sealFile(notes)
    const uri = await ann.api.upload(Uint8Array.from(bytes), 'application/octet-stream')
    await ann.send(room, 'm.room.message', {
      ...{ msgtype: 'm.file', body: 'notes.txt', file: { ...info, url: uri } },
      info: { mimetype: 'text/plain', size: notes.length },
    })
    await ann.hears(room, 'I read it.')
    expect(JSON.stringify(model.requests[0]?.messages)).toContain('The harvest was 14 tonnes.')
    await ann.say(room, 'Send me the plan')
    await ann.hears(room, 'There it is.')
    const sent = await ann.hears(room, ({ sender, content }) => {
      return sender === oracleId && content.msgtype === 'm.file'
    })
    const stored = await ann.api.download(sent.content.file.url, 10_000)
    if (!stored) throw new Error('The file is not there.')
    expect(Buffer.from(stored).toString('latin1')).not.toContain('harvest')
    expect(Buffer.from(await openFile(stored, sent.content.file)).toString()).toBe(content)
    await ann.close()
  }, 60_000)

  it('knows a person by the OpenID token that it answers for, and by no other', async () => {
    await using app = await oracleOf(['Hello.'])
    const bob = await personOf('bob')
    const user = await app.user()
    const token = await bob.api.post(path`/user/${bob.userId}/openid/request_token`, {})
    const forged = { ...token, access_token: `${token.access_token}x` }
    expect((await user.post('/messaging/identity', forged)).status).toBe(401)
    const linked = await user.post('/messaging/identity', token)
    expect(linked.body).toEqual({ userId: bob.userId, did: user.did })
    const room = await bob.createRoom({ invite: [oracleId], direct: true })
    await isThere(bob, room)
    await bob.say(room, '!status')
    await bob.hears(room, `I take you for ${user.did}.`)
    await bob.close()
  }, 60_000)

  const grantedAtOnce = 12
  const long = Array.from({ length: 400 }, (_, n) => `word${n}`).join(' ')

  for (const name of ['limited', 'oracle'])
    it(`takes an answer of four hundred words in twenty edits, each newer: ${name}`, async () => {
      const account = `@${name}:home.test`
      const env = { MESSAGING_EDIT_MS: '1500' }
      await using _ = await oracleOf([{ text: long, paceMs: 40 }], name, env)
      const ann = await personOf('ann')
      const room = await ann.createRoom({ invite: [account], direct: true })
      await isThere(ann, room, account)
      if (name === 'limited') {
        // What the server grants at once is used up before.
        const told = () => saidBy(account, ann.seen(room)).length
        for (let n = 1; n <= grantedAtOnce; n++) await ann.say(room, '!status')
        await waitFor(async () => told() === grantedAtOnce, 60_000)
      }
      const before = (await keptOf(ann, room)).length
      await ann.say(room, 'Say much')
      await waitFor(async () => ann.seen(room).some(({ body }) => body === long), 60_000)
      const sent = (await keptOf(ann, room))
        .slice(before)
        .filter(({ sender, type }) => sender === account && type === 'm.room.message')
      const shown = sent.map(({ content }) =>
        String(content['m.new_content']?.body ?? content.body),
      )
      expect(shown.length).toBeGreaterThan(2)
      expect(shown.length).toBeLessThanOrEqual(21)
      for (const [n, text] of shown.entries()) {
        expect(long.startsWith(text)).toBe(true)
        expect(text.length).toBeGreaterThan(shown[n - 1]?.length ?? 0)
      }
      expect(shown.at(-1)).toBe(long)
      await ann.close()
    }, 120_000)
})
