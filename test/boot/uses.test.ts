import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError, type AnyPlugin } from '#core'
import { testApp } from '#core/testing'

const order: string[] = []
const calendar = definePlugin({
  name: 'calendar',
  summary: 'A calendar.',
  setup: async () => (order.push('calendar'), { today: () => 'Sunday' }),
})
const greeter = definePlugin({
  name: 'greeter',
  summary: 'Greets, with the day where there is a calendar.',
  uses: [calendar],
  setup: ({ plugins }) => (order.push('greeter'), { day: plugins.calendar?.today() ?? 'a day' }),
  routes: {
    'GET /day': {
      auth: 'public',
      run: (_, { self, plugins }) => ({ day: self.day, has: plugins.calendar !== undefined }),
    },
  },
})

it('a peer that is used is set up before, and handed over', async () => {
  order.length = 0
  await using app = await testApp({ plugins: [greeter, calendar] })
  expect(order).toEqual(['calendar', 'greeter'])
  expect((await app.get('/day')).body).toEqual({ day: 'Sunday', has: true })
})

it.each<[string, AnyPlugin[], Record<string, boolean>]>([
  ['is not in the app', [greeter], {}],
  ['is turned off', [greeter, calendar], { calendar: false }],
])('a peer that %s is undefined, and the plugin loads', async (_, plugins, features) => {
  await using app = await testApp({ plugins, features })
  expect((await app.get('/day')).body).toEqual({ day: 'a day', has: false })
})

it('a peer that its setup leaves out for want of a variable is undefined', async () => {
  const needy = definePlugin({
    name: 'needy',
    summary: 'Needs a key that only its setup knows of.',
    env: { NEEDY_KEY: z.string().optional() },
    setup: (): { n: number } => {
      throw new RuntimeError('ENV_MISSING', 'Plugin needy needs NEEDY_KEY.')
    },
  })
  const user = definePlugin({
    name: 'user',
    summary: 'Uses it.',
    uses: [needy],
    setup: ({ plugins }) => plugins.needy?.n,
    routes: { 'GET /n': { auth: 'public', run: (_, { self }) => ({ n: self ?? null }) } },
  })
  await using app = await testApp({ plugins: [user, needy] })
  expect((await app.get('/n')).body).toEqual({ n: null })
})

it('peers that use each other are a circle, named by its path', async () => {
  const used: AnyPlugin[] = []
  const a = definePlugin({ name: 'a', summary: 'a', uses: used as readonly AnyPlugin[] })
  used.push(definePlugin({ name: 'b', summary: 'b', requires: [a] }))
  await expect(testApp({ plugins: [a, used[0]!] })).rejects.toMatchObject({
    details: {
      faults: [{ code: 'PLUGIN_CYCLE', message: 'Plugins require each other: a -> b -> a' }],
    },
  })
})
