import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, type PluginSessions, type Turns } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'

/** A plugin that brings messages from rooms elsewhere, and writes down what handlers see of the readers there. */
function bridge() {
  let made: { readonly turns: Turns; readonly sessions: PluginSessions } | undefined
  const seen: string[] = []
  const plugin = definePlugin({
    name: 'bridge',
    summary: 'Brings messages.',
    visibility: 'always',
    setup: ({ turns, sessions }) => {
      made = { turns, sessions }
    },
    prompt({ shared }) {
      seen.push(`prompt ${shared}`)
      return undefined
    },
    tools: {
      fell: {
        description: 'Fells a tree.',
        effect: 'write',
        approve: true,
        input: z.object({ tree: z.string() }),
        run: ({ tree }, { shared, approvals }) => `${tree} ${shared} ${approvals}`,
      },
    },
    middleware: {
      async turn({ shared, approvals }, next) {
        seen.push(`turn ${shared} ${approvals}`)
        await next()
      },
    },
    runs: { end: ({ shared }) => void seen.push(`end ${shared}`) },
  })
  return {
    plugin,
    seen,
    get own() {
      if (!made) throw new Error('The setup did not run.')
      return made
    },
  }
}

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error: { code?: string }) => error.code,
  )

await onEachDatabase('a room where others read along', ({ databaseUrl }) => {
  const open = async (steps: readonly ScriptedStep[]) => {
    const own = bridge()
    const app = await testApp({
      plugins: [own.plugin],
      model: scriptedModel(steps),
      env: databaseUrl ? { DATABASE_URL: databaseUrl } : {},
    })
    onTestFinished(() => app.close())
    return { app, seen: own.seen, ...own.own }
  }

  it('is told to every handler, in each turn of its session and of no other', async () => {
    const { app, turns, seen } = await open(['One.', 'Two.', 'Three.', 'Four.'])
    const user = await app.user()
    const room = '!hall:example.org'
    const first = turns.start({ user, room, shared: true, message: 'One' })
    await first.ended
    await expect.poll(() => seen).toContain('end true')
    expect(seen).toEqual(['turn true false', 'prompt true', 'end true'])
    // By HTTP in the same session: what is said there stands in the session that the others read.
    const { sessionId } = await first.begun
    seen.length = 0
    await user.say('Two', { sessionId })
    await expect.poll(() => seen).toEqual(['turn true false', 'prompt true', 'end true'])
    seen.length = 0
    await turns.start({ user, room: 'alone', message: 'Three' }).ended
    await user.say('Four')
    await expect.poll(() => seen.filter((line) => line === 'end false')).toHaveLength(2)
    expect(seen.some((line) => line.includes('true'))).toBe(false)
  })

  it('keeps sessions apart that were begun for other readers', async () => {
    const { app, turns, sessions } = await open([])
    const user = await app.user()
    const room = 'hall'
    const open1 = await sessions.ensure({ user, room, shared: true })
    expect(await sessions.ensure({ user, room, shared: true })).toEqual({ ...open1, isNew: false })
    const alone = await sessions.ensure({ user, room, shared: false })
    expect(alone.sessionId).not.toBe(open1.sessionId)
    expect(await sessions.ensure({ user, room, id: open1.sessionId })).toMatchObject({
      isNew: false,
    })
    const asked = { user, room, id: alone.sessionId, shared: true }
    expect(await codeOf(sessions.ensure(asked))).toBe('CONFLICT')
    expect(await codeOf(sessions.ensure({ user, shared: true }))).toBe('INPUT_INVALID')
    const refused = turns.start({ user, shared: true, message: 'Hello' })
    expect(await codeOf(refused.begun)).toBe('INPUT_INVALID')
    const other = { user, room, session: alone.sessionId, shared: true, message: 'Hello' }
    expect(await codeOf(turns.start(other).begun)).toBe('CONFLICT')
  })

  it('asks through the plugin that shows approvals, and through no other', async () => {
    const { app, turns } = await open([
      call('fell', { tree: 'oak' }),
      call('fell', { tree: 'elm' }),
      'Done.',
    ])
    const user = await app.user()
    const asked = turns.start({ user, message: 'Fell the oak', approvals: 'events' })
    expect((await asked.ended).status).toBe('waiting')
    // @ts-expect-error nobody shows approvals by another name
    const wrong = turns.start({ user, message: 'Fell it', approvals: 'buttons' })
    expect(await codeOf(wrong.begun)).toBe('INPUT_INVALID')
  })
})
