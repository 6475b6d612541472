import { expect, it } from 'vitest'
import { scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import { onEachDatabase, type Where } from '../../../test/support/each-database.ts'
import { userWith } from '../../../test/support/granted-user.ts'
import { unquote } from '../../../test/support/models.ts'
import { asKey } from '../../../test/support/registry.ts'
import registry from '../index.ts'

const protocol = 'did:ixo:protocol:stove'
const call = (name: string, args: object = {}): ScriptedStep => ({ call: name, args })

/** The result of the last tool call, as the model reads it. */
const last = ({ messages }: { messages: readonly { role: string; content: string }[] }): any =>
  JSON.parse(unquote(messages.findLast(({ role }) => role === 'tool')!.content))

/** Starts an app whose model follows a script, with a registry that has an open protocol. */
async function talking(where: Where, steps: readonly ScriptedStep[]) {
  const model = scriptedModel([call('load_capability', { names: ['registry'] }), ...steps])
  const database = where.databaseUrl ? { DATABASE_URL: where.databaseUrl } : {}
  const app = await testApp({
    plugins: [registry],
    model,
    env: { API_KEY: asKey.authorization.slice(7), ...database },
  })
  await app.post(
    '/v1/protocols',
    { did: protocol, type: 'Protocol', properties: { name: 'string', minutes: 'number' } },
    asKey,
  )
  const entity = async (body: object) => {
    const twin = { type: 'CookstoveEntity', protocol, properties: {}, ...body }
    return (await app.post('/v1/entities', twin, asKey)).body
  }
  return { app, model, entity }
}

await onEachDatabase('claims in a conversation', (where) => {
  it('submits a claim for its controller, and another user’s oracle evaluates it', async () => {
    let claim = ''
    const { app, entity } = await talking(where, [
      (request) => call('submit_claim', JSON.parse(request.messages.at(-3)!.content)),
      (request) => ((claim = last(request).id), `Submitted as ${claim}.`),
      call('load_capability', { names: ['registry'] }),
      (request) =>
        call('find_claims', { subject: request.messages.at(-3)!.content, status: 'submitted' }),
      'There is one. Shall I approve it?',
      (request) => {
        const [{ id }] = last(request).items
        return call('evaluate_claim', { claim: id, status: 'approved', notes: 'Plausible.' })
      },
      (request) => `Approved: credential ${last(request).credential}.`,
      call('load_capability', { names: ['registry'] }),
      () => call('evaluate_claim', { claim, status: 'rejected' }),
      (request) => `Too late: ${last(request).error}`,
    ])
    await using _ = app
    const owner = await userWith(app, 'registry/write')
    const verifier = await userWith(app, 'registry/write')
    const oracle = await entity({ type: 'OracleEntity', controller: verifier.did })
    const relationships = [{ role: 'verifier', target: oracle.did }]
    const stove = await entity({ controller: owner.did, relationships })
    const request = { subject: stove.did, type: 'StoveUse', protocol, properties: { minutes: 90 } }
    const submitted = await owner.say(JSON.stringify(request))
    expect(submitted.text).toBe(`Submitted as ${claim}.`)
    // A claim contains the submitter's words, so the agent must not approve it before the verifier has said so.
    const found = await verifier.say(stove.did)
    expect(found.text).toBe('There is one. Shall I approve it?')
    const approved = await verifier.say('Yes.', { sessionId: found.sessionId })
    const [, credential] = /^Approved: credential (\S+)\.$/.exec(approved.text) ?? []
    const { body } = await app.get(`/v1/credentials/${credential}`, { headers: asKey })
    expect(body.credentialSubject).toMatchObject({
      id: stove.did,
      claim: { submitter: owner.did, properties: { minutes: 90 } },
      evaluation: { oracle: oracle.did, notes: 'Plausible.' },
    })
    const late = await verifier.say('I have changed my mind.')
    expect(late.text).toBe(`Too late: The claim ${claim} is approved already.`)
  })

  it('refuses a claim or a verdict to whom the operator has not granted writing', async () => {
    const { app, entity } = await talking(where, [
      (request) =>
        call('submit_claim', {
          subject: request.messages.at(-3)!.content,
          type: 'StoveUse',
          properties: {},
        }),
      call('evaluate_claim', { claim: 'any', status: 'approved' }),
      'Both refused.',
    ])
    await using _ = app
    const user = await userWith(app, 'registry/read')
    const { did } = await entity({ controller: user.did })
    const said = await user.say(did)
    expect(
      said
        .of('tool_call')
        .filter(({ status }) => status === 'error')
        .map(({ error }) => /needs "(.+?)"/.exec(error)?.[1]),
    ).toEqual(['registry/write', 'registry/write'])
  })
})
