import { describe, expect, it } from 'vitest'
import { type ScriptedStep, scriptedModel, testApp, type TestApp } from '#core/testing'
import { messagingEnv, oracleId, waitFor } from '../../../test/support/open-oracle.ts'
import messaging from '../index.ts'
import { path } from '../server/api.ts'
import { Person, type SeenMessage } from '../testing/person.ts'

// `plugins/messaging/testing/synapse.sh` starts a Synapse with the accounts that are used here.
const url = process.env.SYNAPSE_URL ?? ''

/** An oracle on Synapse that gives these answers, with an account of the server. */
async function oracleOf(
  replies: ScriptedStep[],
  name = 'oracle',
  more: Readonly<Record<string, string>> = {},
): Promise<TestApp> {
  const account = {
    MATRIX_ORACLE_ADMIN_USER_ID: `@${name}:home.test`,
    MATRIX_ORACLE_ADMIN_PASSWORD: `${name}-password`,
  }
  const env = { ...messagingEnv(url), ...account, ...more }
  const app = await testApp({ plugins: [messaging], model: scriptedModel(replies), fetch, env })
  await waitFor(async () => (await app.get('/messaging')).status === 200)
  return app
}

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
      { text: 'The capital of Zambia is Lusaka.', paceMs: 100 },
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
