import type { Context } from 'koa'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { definePlugin } from '#core'
import { testApp } from '#core/testing'
import { RateLimits } from '../../core/runtime/http/limits/rate-limit.ts'
import { createRouteLimit } from '../../core/runtime/http/limits/route-limit.ts'

const never = () => new Promise<never>(() => undefined)
const quiet = { debug() {}, info() {}, warn() {}, error() {} }

describe('what a plugin never ends', () => {
  it('keeps no server from closing: onClose has ten seconds, and the log names the plugin', async () => {
    const closed: string[] = []
    const first = definePlugin({
      name: 'first',
      summary: 'Is closed after the other one.',
      setup: ({ onClose, db }) =>
        onClose(async () => {
          await db.selectNoFrom((from) => from.lit(1).as('one')).execute()
          closed.push('first')
        }),
    })
    const stuck = definePlugin({
      name: 'stuck',
      summary: 'Never closes.',
      setup: ({ onClose }) => onClose(never),
    })
    const app = await testApp({ plugins: [first, stuck] })
    await app.close()
    expect(closed).toEqual(['first'])
    expect(app.log.join('\n')).toMatch(/onClose of stuck failed[^]*not done within 10000 ms/)
  })

  it('is a 503 that names it, where it is asked what is the caller’s own', async () => {
    const unsure = definePlugin({
      name: 'unsure',
      summary: 'Never says.',
      visibility: 'always',
      routes: { 'GET /unsure': { auth: 'bearer', own: never, run: () => ({}) } },
    })
    const app = await testApp({ plugins: [unsure] })
    onTestFinished(() => app.close())
    const user = await app.user()
    expect(await user.get('/unsure')).toMatchObject({
      status: 503,
      body: {
        code: 'UNAVAILABLE',
        message: "unsure did not tell within 5 s what is the caller's own.",
      },
    })
  })

  it('is a 503 where it is asked what a request counts by', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const limits = new RateLimits({ log: quiet })
    onTestFinished(() => limits.close())
    const declared = { max: 1, perMs: 1_000, by: never }
    const count = createRouteLimit(limits, 'GET /slow', declared, async () => ({ input: {} }))
    const counted = Promise.resolve(count({ state: {} } as Context, [], ''))
    const told = expect(counted).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: 'The plugin did not tell within 40 s what this request counts by.',
    })
    await vi.advanceTimersByTimeAsync(40_000)
    await told
  })
})
