import { expect, test } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'

/** What the ledger has paid, in this order. */
const paid: number[] = []

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
      run: ({ amount }) => ({ paid: paid.push(amount) }),
    },
    sign: {
      description: 'Signs.',
      input: z.object({ amount: z.number() }),
      effect: 'write',
      approve: true,
      can: { can: 'ledger/pay' },
      run: ({ amount }) => ({ paid: paid.push(amount) }),
    },
  },
})

const said = z.object({ did: z.string(), message: z.string(), delegation: z.string().optional() })
const decided = z.object({ did: z.string(), runId: z.string(), delegation: z.string().optional() })

/** Stands for a plugin that brings words from elsewhere. */
const post = definePlugin({
  name: 'post',
  summary: 'Brings words.',
  routes: {
    'POST /post': {
      auth: 'public',
      input: said,
      async run({ did, message, delegation }, { turns }) {
        // As a plugin without types may say it.
        const stored = { delegation } as { delegation?: 'stored' }
        const turn = turns.start({ user: { did }, message, approvals: 'events', ...stored })
        const { runId } = await turn.begun
        return { runId, ...(await turn.ended) }
      },
    },
    'POST /post/yes': {
      auth: 'public',
      input: decided,
      async run({ did, runId, delegation }, { turns }) {
        const stored = { delegation } as { delegation?: 'stored' }
        return turns.resume({ user: { did }, runId, decision: 'approve', ...stored }).ended
      },
    },
  },
})

await onEachDatabase('the delegation that a user has stored', ({ databaseUrl }) => {
  test('is in force in a turn of a plugin that says so, and in no other', async () => {
    paid.length = 0
    const model = scriptedModel([
      ...[1, 2, 3].flatMap((amount) => [call('pay', { amount }), 'Done.']),
      ...[4, 5].flatMap((amount) => [call('sign', { amount }), 'Done.']),
    ])
    await using app = await testApp({
      plugins: [ledger, post],
      model,
      env: databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl },
    })
    const user = await app.user()
    const { did } = user
    const bring = async (delegation?: string) =>
      (await app.post('/post', { did, message: 'Pay', ...(delegation && { delegation }) })).body
    const raw = (await user.wallet.delegate({ audience: app.oracleDid })).text
    expect((await user.post('/delegation', { raw })).status).toBe(200)
    expect(await bring()).toMatchObject({ status: 'finished' })
    expect(paid).toEqual([])
    expect(await bring('stored')).toMatchObject({ status: 'finished' })
    expect(paid).toEqual([2])
    const wrong = await app.post('/post', { did, message: 'Pay', delegation: 'any' })
    expect(wrong.body.code).toBe('INPUT_INVALID')
    expect((await user.delete('/delegation')).status).toBe(200)
    expect(await bring('stored')).toMatchObject({ status: 'finished' })
    expect(paid).toEqual([2])
    // The answer to a question says it for itself.
    expect((await user.post('/delegation', { raw: await another() })).status).toBe(200)
    for (const [delegation, amounts] of [
      [undefined, [2]],
      ['stored', [2, 5]],
    ] as const) {
      const { runId, status } = await bring('stored')
      expect(status).toBe('waiting')
      const answer = { did, runId, ...(delegation && { delegation }) }
      expect((await app.post('/post/yes', answer)).body.status).toBe('finished')
      expect(paid).toEqual(amounts)
    }

    async function another() {
      // Another lifetime makes another token than the one that was taken back.
      return (await user.wallet.delegate({ audience: app.oracleDid, lifetime: 3_000 })).text
    }
  })
})
