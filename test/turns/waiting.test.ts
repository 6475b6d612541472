import { expect, onTestFinished, test } from 'vitest'
import { definePlugin, RuntimeError, type Turns } from '#core'
import { testApp } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'
import { heldModel } from '../support/held-model.ts'

await onEachDatabase('a turn that waited', ({ databaseUrl }) => {
  for (const code of ['PAYMENT_REQUIRED', 'NOT_FOUND', 'SESSION_BUSY', 'TURNS_LIMIT'] as const)
    test(`is refused by a "begin" that throws ${code}, and the one behind it begins`, async () => {
      let turns: Turns | undefined
      let asked = 0
      const gate = definePlugin({
        name: 'gate',
        summary: 'Refuses turns.',
        setup: (boot) => void (turns = boot.turns),
        runs: {
          begin({ metadata }) {
            if (!metadata?.refused) return
            asked++
            throw new RuntimeError(code, 'Not today.')
          },
        },
      })
      const model = heldModel(['Wait'], [' for it.'])
      const app = await testApp({
        plugins: [gate],
        model,
        env: databaseUrl ? { DATABASE_URL: databaseUrl } : {},
      })
      onTestFinished(() => app.close())
      const user = await app.user()
      const { sessionId } = (await user.post('/sessions')).body
      const running = user.say('Hello', { sessionId })
      await expect.poll(() => model.requests.length).toBe(1)
      const start = (message: string, metadata: Record<string, unknown>) =>
        turns?.start({ user, session: sessionId, message, metadata })
      const refused = start('Refused', { refused: true })
      expect((await refused?.begun)?.state).toBe('queued')
      const next = start('Next', {})
      expect((await next?.begun)?.state).toBe('queued')
      model.goOn()
      expect((await running).status).toBe('finished')
      expect(await next?.ended).toMatchObject({ status: 'finished' })
      expect(await refused?.ended).toEqual({
        status: 'failed',
        text: '',
        error: { code, message: 'Not today.' },
      })
      expect(asked).toBe(1)
      expect((await user.get(`/sessions/${sessionId}/run`)).body).toEqual({
        run: null,
        waitingTurns: 0,
      })
    })
})
