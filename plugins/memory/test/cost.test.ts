import { sql } from 'kysely'
import { expect, it, onTestFinished } from 'vitest'
import { definePlugin } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import memory from '../index.ts'

await onEachDatabase('what a turn pays for memory', (where) => {
  /** An app with memory in a mode, and a look at the runs of which somebody has yet to be told. */
  async function appIn(mode: 'ask' | 'on') {
    const seen: number[] = []
    const watch = definePlugin({
      name: 'watch',
      summary: 'Looks at whom the end of the turn under way is told to.',
      tools: {},
      async prompt({ db }) {
        const { rows } = await sql<{ many: number }>`select count(*) as many from kernel_unsettled
          where consumer = 'memory'`.execute(db)
        seen.push(Number(rows[0]?.many))
        return undefined
      },
      visibility: 'always',
    })
    const model = scriptedModel(['One.', 'Two.', 'Three.'])
    const app = await testApp({
      plugins: [memory, watch],
      model,
      env: {
        MEMORY_MODE: mode,
        ...(where.databaseUrl && { DATABASE_URL: where.databaseUrl }),
      },
    })
    onTestFinished(() => app.close())
    return { app, seen, model }
  }
  const offered = (request: { readonly tools: readonly { readonly name: string }[] } | undefined) =>
    (request?.tools ?? []).map(({ name }) => name)

  it('is told of the end of no turn of a person who was not asked, and of each once the person said yes', async () => {
    const { app, seen, model } = await appIn('ask')
    const user = await app.user()
    await user.say('Hello')
    expect(seen).toEqual([0])
    expect(offered(model.requests[0])).not.toContain('recall')
    await user.put('/memory/settings', { mode: 'on' })
    await user.say('I live in Lusaka')
    expect(seen[1]).toBe(1)
    // What the turn before was offered is not offered again.
    expect(offered(model.requests[1])).toContain('recall')
    await user.put('/memory/settings', { mode: 'off' })
    await user.say('I live in Kitwe')
    expect(offered(model.requests[2])).not.toContain('remember')
  })

  it('offers tools as one and the same to every turn, in letters of one byte', async () => {
    const { app, model } = await appIn('on')
    for (const words of ['One?', 'Two?']) await (await app.user()).say(words)
    const [first, second] = model.requests.map(({ tools }) =>
      tools.find(({ name }) => name === 'remember'),
    )
    expect(first).toBeDefined()
    expect(second).toBe(first)
    const all = model.requests[0]?.tools.filter(({ name }) => /^(re|forget|memory)/.test(name))
    // One wider letter makes the whole request twice as large in memory, and slower to write.
    expect(JSON.stringify(all)).toMatch(/^[\u0000-\u00ff]*$/)
  })
})
