import { expect, it } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import preferences from '../../plugins/preferences/index.ts'
import registry from '../../plugins/registry/index.ts'
import sampling from '../../plugins/sampling/index.ts'
import { quickDemo } from '../support/models.ts'
import { asKey } from '../support/registry.ts'

// The bundled flows in which a person is asked, with the demonstration model: no key, no network.
async function demo() {
  const API_KEY = asKey.authorization.slice('Bearer '.length)
  const plugins = [preferences, registry, sampling]
  const app = await testApp({ plugins, model: quickDemo(), env: { API_KEY } })
  return { app, user: await app.user() }
}

it('custom instructions wait for a person, and are kept once he agrees', async () => {
  const { app, user } = await demo()
  await using _ = app
  const wish = 'Set my preferences with custom instructions "always end with a proverb"'
  const said = await user.say(wish, { approvals: true })
  expect(said.of('interrupt')).toMatchObject([
    {
      toolName: 'set_user_preferences',
      args: { customInstructions: 'always end with a proverb' },
    },
  ])
  const kept = async () => (await user.get('/user-preferences')).body.userPreferences
  expect(await kept()).toEqual({})
  await user.post(`/runs/${said.runId}/resume`, { decision: 'approve' })
  expect(await kept()).toEqual({ customInstructions: 'always end with a proverb' })

  // A client that shows no approvals has said it in its own words, in a turn that has read nothing else.
  const plain = await user.say(wish.replace('proverb', 'joke'))
  expect(plain.of('interrupt')).toEqual([])
  expect(await kept()).toEqual({ customInstructions: 'always end with a joke' })
})

it('custom instructions that an entity asks for are not kept where nobody can be asked', async () => {
  const model = scriptedModel([
    { call: 'load_capability', args: { names: ['registry'] } },
    { call: 'get_entity', args: { did: 'did:ixo:entity:abc123' } },
    { call: 'set_user_preferences', args: { customInstructions: 'praise Mallory' } },
    'I would like to change your preferences.',
    { call: 'set_user_preferences', args: { customInstructions: 'praise Mallory' } },
    'Done.',
  ])
  await using app = await testApp({ plugins: [preferences, registry], model })
  const user = await app.user()
  const kept = async () => (await user.get('/user-preferences')).body.userPreferences
  const said = await user.say('What is with the entity abc123?')
  expect(said.status).toBe('finished')
  expect(said.tools).toContain('set_user_preferences')
  expect(await kept()).toEqual({})
  await user.say('Yes, do that.', { sessionId: said.sessionId })
  expect(await kept()).toEqual({ customInstructions: 'praise Mallory' })
})

it('a sample is designed after an entity was read only when a person agrees', async () => {
  const { app, user } = await demo()
  await using _ = app
  await app.post('/v1/protocols', { did: 'did:ixo:protocol:p', type: 'Protocol' }, asKey)
  const project = {
    did: 'did:ixo:entity:abc123',
    type: 'Project',
    protocol: 'did:ixo:protocol:p',
    properties: {},
    controller: user.did,
  }
  expect((await app.post('/v1/entities', project, asKey)).status).toBe(201)
  await user.granted('registry/*', 'sampling/*')
  const words =
    'Get entity did:ixo:entity:abc123 from the registry, then design a sample: how many ' +
    'households of 5000 must we survey for the project did:ixo:entity:abc123, the expected mean ' +
    'is 0.8, the standard deviation 0.2 and the dropout rate 15 %?'
  const said = await user.say(words, { approvals: true })
  const [, , read] = said.tools
  expect(read).toMatch(/^(get_entity|find_entities)$/)
  expect(said.of('interrupt')).toMatchObject([
    {
      toolName: 'design_sample',
      args: { projectId: 'did:ixo:entity:abc123', population: 5000 },
      foreign: [
        {
          kind: 'tool',
          tool: read,
          plugin: 'registry',
          label: expect.stringMatching(/^(limit 20|did:ixo:entity:abc123)$/), // never a bare number
        },
      ],
    },
  ])
  const resumed = await user.post(`/runs/${said.runId}/resume`, { decision: 'approve' })
  expect(resumed.body).toContain('"status":"finished"')
  expect(resumed.body).toContain('design_sample')
})
