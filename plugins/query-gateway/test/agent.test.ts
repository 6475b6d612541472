import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import gateway from '../index.ts'
import { descriptorFile, startLedger, type Ledger } from '../fixtures/ledger.ts'

let ledger: Ledger
beforeEach(async () => {
  ledger = await startLedger()
})
afterEach(() => ledger.close())

async function appWith(model?: Parameters<typeof testApp>[0]['model']) {
  const app = await testApp({
    plugins: [gateway],
    env: { GATEWAY_UPSTREAM: ledger.address, GATEWAY_DESCRIPTORS: descriptorFile },
    ...(model ? { model } : {}),
  })
  await expect.poll(() => app.report.plugins[0]?.state).toBe('available')
  return app
}

/** The result of a tool, as the model received it. */
const told: (nth: number) => ScriptedStep =
  (nth) =>
  ({ messages }) => {
    const answers = messages.filter(({ role }) => role === 'tool')
    return JSON.stringify(answers[nth])
  }

describe('an agent', () => {
  it('finds the ledger, loads it, looks for the method and answers from what it says', async () => {
    const model = scriptedModel([
      { call: 'list_capabilities' },
      { call: 'load_capability', args: { names: ['query-gateway'] } },
      { call: 'query_ledger', args: {} },
      {
        call: 'query_ledger',
        args: { method: 'ledger.v1.EntityQuery.Entity', request: { id: 'did:x:entity:1' } },
      },
      told(3),
    ])
    await using app = await appWith(model)
    const said = await (await app.user()).say('What does the ledger say about did:x:entity:1?')
    expect(said.status).toBe('finished')
    expect(said.tools).toEqual([
      'list_capabilities',
      'load_capability',
      'query_ledger',
      'query_ledger',
    ])
    expect(said.text).toContain('asset/cookstove')
    expect(said.text).toContain('18446744073709551615')
    expect(ledger.calls).toEqual({ 'EntityQuery.Entity': 1 })
    const names = (nth: number) => model.requests[nth]!.tools.map(({ name }) => name)
    expect(names(0)).not.toContain('query_ledger')
    expect(names(2)).toContain('query_ledger')
    expect(JSON.stringify(model.requests[2]!.messages)).toContain('ledger.v1.EntityQuery.Entity')
  })

  it('may leave out the beginning of a name, and narrow the list', async () => {
    await using app = await appWith()
    const thread = app.thread().load('query-gateway')
    const ask = (args: object) => thread.call('query_ledger', args as never)
    expect(await ask({ method: 'Entity', request: { id: 'stove/7' } })).toMatchObject({
      entity: { id: 'stove/7' },
    })
    expect(await ask({ method: '/ledger.v1.TokenQuery/Params' })).toMatchObject({
      contract_code: '7',
    })
    await expect(ask({ method: 'Params' })).rejects.toThrow('the end of 2 names')
    expect(await ask({ about: 'TOKEN' })).toEqual({
      methods: [
        { method: 'ledger.v1.TokenQuery.Params', request: {} },
        { method: 'ledger.v1.TokenQuery.Balance', request: { address: 'string' } },
      ],
    })
  })

  it('is told what went wrong in words that it can act on', async () => {
    const ask = (method: string, request = {}) => ({
      call: 'query_ledger',
      args: { method, request },
    })
    const model = scriptedModel([
      { call: 'load_capability', args: { names: ['query-gateway'] } },
      [
        ask('ledger.v1.EntityQuery.Entity', { id: 'did:x:nobody' }),
        ask('ledger.v1.EntityQuery.Entitty'),
        ask('ledger.v1.EntityQuery.ByStatus', { status: 'STATUS_LOST' }),
        ask('ledger.v1.ClaimsQuery.Disputes'),
      ],
      ({ messages }) => JSON.stringify(messages.filter(({ role }) => role === 'tool')),
    ])
    await using app = await appWith(model)
    const { text, of } = await (await app.user()).say('Look it up.')
    for (const words of [
      'no entity did:x:nobody',
      'The ledger has no query called',
      'without a method',
      'STATUS_LOST',
      'NOT_IMPLEMENTED',
    ])
      expect(text).toContain(words)
    expect(text).not.toContain(ledger.address)
    const errors = of('tool_call').filter(({ status }) => status === 'error')
    expect(errors).toHaveLength(4)
  })
})

describe('the demonstration model', () => {
  it('answers from the ledger when it is told the method', async () => {
    await using app = await appWith()
    const said = await (
      await app.user()
    ).say('Query the ledger with method "ledger.v1.TokenQuery.Params" for the token parameters')
    expect(said.tools).toContain('query_ledger')
    expect(said.text).toContain('9007199254740993')
  })
})
