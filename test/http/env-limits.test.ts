import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError, type AnyPlugin } from '#core'
import { testApp } from '#core/testing'

const statuses = async (ask: () => Promise<{ status: number }>, times: number) =>
  Promise.all(Array.from({ length: times }, async () => (await ask()).status))

const env = { PER_MINUTE: z.coerce.number().default(2) }

it('a limit that is a function gets the variables of its plugin, as their schemas parse them', async () => {
  const declared = definePlugin({
    name: 'declared',
    summary: 'Routes in the definition.',
    env,
    routes: {
      'GET /declared': {
        auth: 'public',
        limit: ({ PER_MINUTE }) => ({ max: PER_MINUTE, perMs: 60_000 }),
        run: () => 'here',
      },
    },
  })
  for (const [given, passed] of [
    [{}, 2],
    [{ PER_MINUTE: '3' }, 3],
  ] as const) {
    await using app = await testApp({ plugins: [declared], env: given })
    const all = await statuses(() => app.get('/declared'), 5)
    expect(all.filter((status) => status === 200)).toHaveLength(passed)
    expect(all.filter((status) => status === 429)).toHaveLength(5 - passed)
  }
})

it('the routes that a function makes at boot have such limits too', async () => {
  const made = definePlugin({
    name: 'made',
    summary: 'Routes of a function.',
    env,
    routes: () => ({
      'GET /made': {
        auth: 'public',
        limit: ({ PER_MINUTE }) => ({ max: PER_MINUTE, perMs: 60_000 }),
        run: () => 'here',
      },
    }),
  })
  await using app = await testApp({ plugins: [made] })
  const all = await statuses(() => app.get('/made'), 4)
  expect(all.filter((status) => status === 200)).toHaveLength(2)
})

it('nobody asks the limit of a plugin that lacks a variable', async () => {
  const needy = definePlugin({
    name: 'needy',
    summary: 'Needs a key.',
    env: { NEEDY_KEY: z.string() },
    routes: {
      'GET /needy': {
        limit: () => {
          throw new Error('asked')
        },
        run: () => 1,
      },
    },
  })
  await using app = await testApp({ plugins: [needy] })
  expect(app.report.plugins).toMatchObject([{ state: 'excluded', routes: [{ key: 'GET /needy' }] }])
})

const limited = (limit: unknown, late: boolean): AnyPlugin => {
  const routes = { 'GET /limited': { auth: 'public', limit, run: () => 1 } }
  const more = { routes: late ? () => routes : routes }
  return definePlugin({ name: 'limited', summary: 'Limited.', ...(more as object) })
}

it.each([false, true])('a wrong limit stops the boot (routes made at boot: %s)', async (late) => {
  for (const [limit, why] of [
    [() => undefined, 'limit(env) returned undefined'],
    [() => 5, 'limit(env) returned 5'],
    [() => Promise.resolve({ max: 1, perMs: 1 }), 'limit.max and limit.perMs are whole numbers'],
    [() => ({ max: 0, perMs: 1000 }), 'limit.max and limit.perMs are whole numbers'],
    [() => ({ max: 1, perMs: '1000' }), 'limit.max and limit.perMs are whole numbers'],
    [
      () => {
        throw new Error('no such plan')
      },
      'limit(env) threw: no such plan',
    ],
  ] as const) {
    const fault: unknown = await testApp({ plugins: [limited(limit, late)] }).then(
      (app) => app.close(),
      (error: unknown) => error,
    )
    expect(fault).toBeInstanceOf(RuntimeError)
    const { faults } = (fault as RuntimeError).details as {
      faults: { code: string; message: string }[]
    }
    expect(faults).toHaveLength(1)
    expect(faults[0]).toMatchObject({ code: 'ROUTE_INVALID' })
    expect(faults[0]?.message).toContain(`The route "GET /limited" of limited is malformed: ${why}`)
  }
})
