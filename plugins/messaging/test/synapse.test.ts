import { expect, it } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import { messagingEnv, oracleId, waitFor } from '../../../test/support/open-oracle.ts'
import messaging from '../index.ts'
import { path } from '../server/api.ts'
import { Person } from '../testing/person.ts'

// `plugins/messaging/testing/synapse.sh` starts a Synapse with the two accounts that are used here.
const url = process.env.SYNAPSE_URL

it.skipIf(url === undefined)('a real Synapse carries an encrypted conversation', async () => {
  const model = scriptedModel([{ text: 'The capital of Zambia is Lusaka.', paceMs: 100 }])
  const env = messagingEnv(url ?? '')
  await using app = await testApp({ plugins: [messaging], model, fetch, env })
  await waitFor(async () => (await app.get('/messaging')).status === 200)
  const ann = await Person.open(url ?? '', '@ann:home.test', 'ann-password')
  const room = await ann.createRoom({ invite: [oracleId], encrypted: true, direct: true })
  await waitFor(async () => {
    const { joined } = await ann.api.get(path`/rooms/${room}/joined_members`)
    return oracleId in joined
  })
  await ann.hasMember(room, oracleId)
  await ann.say(room, 'What is the capital of Zambia?')
  const answer = await ann.hears(room, 'The capital of Zambia is Lusaka.')
  expect(answer.sender).toBe(oracleId)
  await ann.close()
})
