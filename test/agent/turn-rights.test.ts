import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { definePlugin, type ModelRequest } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { sayTo } from '../support/caller.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { unquote } from '../support/quotation.ts'

const call = (name: string, args: object = {}) => ({ call: name, args })

/** What the newest call of the tool came to, as the model reads it. */
const resultOf = ({ messages }: ModelRequest, name: string): string =>
  messages.findLast((message) => message.role === 'tool' && message.name === name)?.content ?? ''

/** A tool that needs a capability, asked for twice in one turn; something happens in between. */
async function turnWith(
  between: (app: { revoke(): Promise<unknown> }) => Promise<unknown>,
  where: { databaseUrl?: string },
  lifetime?: number,
) {
  const ledger = definePlugin({
    name: 'ledger',
    summary: 'Pays.',
    visibility: 'always',
    tools: {
      pay: {
        description: 'Pays.',
        input: z.object({ amount: z.number() }),
        effect: 'read',
        can: { can: 'ledger/pay' },
        run: ({ amount }) => ({ paid: amount }),
      },
    },
  })
  const results: string[] = []
  let revoke = async (): Promise<unknown> => undefined
  const model = scriptedModel([
    call('pay', { amount: 1 }),
    async (request) => {
      results.push(resultOf(request, 'pay'))
      await between({ revoke: () => revoke() })
      return call('pay', { amount: 2 })
    },
    (request) => {
      results.push(resultOf(request, 'pay'))
      return call('pay', { amount: 3 })
    },
    (request) => {
      results.push(resultOf(request, 'pay'))
      return 'Done.'
    },
  ])
  await using app = await testApp({
    plugins: [ledger],
    model,
    env: where.databaseUrl ? { DATABASE_URL: where.databaseUrl } : {},
  })
  const { wallet } = await app.user()
  const delegation = await wallet.delegate({ audience: app.oracleDid, lifetime })
  const headers = async () => ({
    ...(await wallet.headers(app.oracleDid)),
    'x-ucan-delegation': delegation.text,
  })
  revoke = async () => app.delete('/delegation', { headers: await headers() })
  const said = await sayTo(app.url, headers, 'Pay')
  return { said, results, oracleDid: app.oracleDid }
}

await onEachDatabase('a delegation that ends in the middle of a turn', (where) => {
  test('because it was revoked is asked for once, and nothing more is done with it', async () => {
    const { said, results, oracleDid } = await turnWith(({ revoke }) => revoke(), where)
    expect(results[0]).toContain('"paid":1')
    for (const result of results.slice(1)) expect(result).toContain('FORBIDDEN')
    expect(said.of('delegation_required')).toEqual([{ oracleDid, reason: 'revoked' }])
    expect(said.status).toBe('finished')
  })

  test('because its time is over is asked for once', async () => {
    const wait = () => new Promise((resolve) => setTimeout(resolve, 3_200))
    const { said, results, oracleDid } = await turnWith(wait, where, 3)
    expect(results[0]).toContain('"paid":1')
    for (const result of results.slice(1)) expect(result).toContain('FORBIDDEN')
    expect(said.of('delegation_required')).toEqual([{ oracleDid, reason: 'expired' }])
  })
})

describe('the state of another plugin', () => {
  test('is a copy that nobody can write into', async () => {
    const tray = definePlugin({
      name: 'tray',
      summary: 'Keeps things.',
      visibility: 'always',
      state: { things: z.array(z.object({ name: z.string() })).default([{ name: 'cup' }]) },
      tools: {
        show: {
          description: 'Shows.',
          input: z.object({}),
          effect: 'read',
          run: (_, { state }) => state.things,
        },
      },
    })
    const thief = definePlugin({
      name: 'thief',
      summary: 'Takes things.',
      visibility: 'always',
      requires: [tray],
      tools: {
        take: {
          description: 'Takes.',
          input: z.object({}),
          effect: 'read',
          run(_, { stateOf }) {
            const state = stateOf(tray)
            const attempts = [
              () => void state.things.pop(),
              () => void (state.things[0]!.name = 'nothing'),
              () => void Object.assign(state, { things: [] }),
              () => void delete (state as { things?: unknown }).things,
            ]
            return attempts.map((attempt) => {
              try {
                return attempt()
              } catch (error) {
                return (error as Error).name
              }
            })
          },
        },
      },
    })
    const told: string[] = []
    const model = scriptedModel([
      call('take'),
      (request) => (told.push(resultOf(request, 'take')), call('show')),
      (request) => (told.push(resultOf(request, 'show')), 'Done.'),
    ])
    await using app = await testApp({ plugins: [tray, thief], model })
    await (await app.user()).say('Take it')
    expect(JSON.parse(unquote(told[0]!))).toEqual([
      'TypeError',
      'TypeError',
      'TypeError',
      'TypeError',
    ])
    expect(JSON.parse(unquote(told[1]!))).toEqual([{ name: 'cup' }])
  })
})
