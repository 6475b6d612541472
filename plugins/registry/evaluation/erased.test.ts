import { sql } from 'kysely'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { definePlugin, type Database } from '#core'
import { scriptedModel, testApp, type TestApp } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { apiKeys, asKey, asVerifier } from '../../../test/support/registry.ts'
import registry from '../index.ts'

const usage = 'did:ixo:protocol/usage'
const secret = 'my-neighbour-lent-me-the-stove'
const other = 'the-other-one-said-this'

await onEachDatabase('what the agent was told in order to evaluate', (where) => {
  let app: TestApp
  let db: Database
  const told: string[] = []
  /** Says a verdict about the claims with words in them, and holds those that a test holds. */
  let held: Promise<void> | undefined
  let isAsked = false

  beforeAll(async () => {
    const model = scriptedModel(
      Array.from({ length: 40 }, () => async (request: any) => {
        // any: a request of the model
        told.push(JSON.stringify(request))
        isAsked = true
        await held
        return JSON.stringify(request).includes('Noted.')
          ? `I read of ${secret}.`
          : {
              call: 'give_verdict',
              args: { verdict: 'reject', reasons: ['It cannot be.'] },
            }
      }),
    )
    const reach = definePlugin({
      name: 'reach',
      summary: 'Hands the database to the test.',
      setup: (boot) => void (db = boot.db),
    })
    app = await testApp({
      plugins: [registry, reach],
      model,
      env: {
        API_KEY: apiKeys,
        ACCESS: 'granted',
        ...(where.databaseUrl && { DATABASE_URL: where.databaseUrl }),
      },
    })
    const made = await app.post(
      '/v1/protocols',
      {
        did: usage,
        type: 'Protocol',
        properties: { words: 'string' },
        evaluation: {
          rules: [{ when: true, then: 'agent', because: 'The agent looks at each.' }],
          agent: { instructions: 'Look at it.' },
        },
      },
      asVerifier,
    )
    expect([made.status, made.body]).toEqual([201, made.body])
  })
  afterAll(() => app?.close())

  /** Every text that the runtime keeps of turns, as one. */
  async function keptOfTurns(): Promise<string> {
    const tables = ['kernel_steps', 'kernel_run_events', 'kernel_runs', 'kernel_sessions'] as const
    const all = []
    for (const table of tables)
      all.push((await sql`select * from ${sql.table(table)}`.execute(db)).rows)
    return JSON.stringify(all, (_, value) =>
      value instanceof Uint8Array ? Buffer.from(value).toString() : value,
    )
  }

  const claimOf = async (words: string) => {
    const user = await app.user()
    await user.granted('registry/write')
    const asset = await user.post('/v1/entities', {
      type: 'Stove',
      protocol: usage,
      properties: {},
    })
    expect([asset.status, asset.body]).toEqual([201, asset.body])
    const claim = await user.post('/v1/claims', {
      subject: asset.body.did,
      type: 'Use',
      protocol: usage,
      properties: { words },
    })
    expect([claim.status, claim.body]).toEqual([201, claim.body])
    return { user, id: claim.body.id as string }
  }
  const statusOf = async (id: string) =>
    (await app.get(`/v1/claims/${id}`, { headers: asKey })).body.status

  it('is taken back with the user, and what others said stays', async () => {
    const one = await claimOf(secret)
    const two = await claimOf(other)
    for (const { id } of [one, two])
      await expect.poll(() => statusOf(id), { timeout: 20_000 }).toBe('rejected')
    await expect.poll(keptOfTurns, { timeout: 10_000 }).toContain(`I read of ${secret}`)
    expect(told.join()).toContain(secret)
    expect(await keptOfTurns()).toContain(other)
    const { erased } = await two.user.erase()
    expect(erased.registry).toMatchObject({ 'evaluation-turn': 1 })
    expect(await keptOfTurns()).not.toContain(other)
    expect(await keptOfTurns()).toContain(secret)
    // A rejected claim is a proof of others, and stays.
    expect(await statusOf(two.id)).toBe('rejected')
    expect((await one.user.erase()).erased.registry).toMatchObject({ 'evaluation-turn': 1 })
    expect(await keptOfTurns()).not.toContain(secret)
    expect((await one.user.erase()).erased.registry).toMatchObject({ 'evaluation-turn': 0 })
  })

  it('is taken back while the agent still reads it', async () => {
    const gate = Promise.withResolvers<void>()
    held = gate.promise
    isAsked = false
    const { user, id } = await claimOf(secret)
    await expect.poll(() => isAsked, { timeout: 20_000 }).toBe(true)
    expect((await user.erase()).erased.registry).toMatchObject({ claim: 1, 'evaluation-turn': 1 })
    gate.resolve()
    held = undefined
    expect(await statusOf(id)).toBeUndefined()
    expect(await keptOfTurns()).not.toContain(secret)
  })
})
