import { z } from 'zod'
import { definePlugin, type ToolsOf, type StateOf, type SelfOf, type User } from '../core/plugin.ts'

type Equal<A, B> =
  (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
function same<A, B>(..._: Equal<A, B> extends true ? [] : [wrong: { a: A; b: B }]): void {}

const places = definePlugin({
  name: 'places',
  summary: 'Places.',
  state: { seen: z.number().default(0) },
  setup: () => ({ find: (name: string) => ({ name, lat: 1 }) }),
})
same<typeof places.name, 'places'>()
same<SelfOf<typeof places>['find'], (name: string) => { name: string; lat: number }>()
same<StateOf<typeof places>, { seen: number }>()

const ask = z.object({ city: z.string().min(1) })
const weather = definePlugin({
  name: 'weather',
  summary: 'Weather.',
  env: { UNITS: z.enum(['celsius', 'fahrenheit']).default('celsius'), KEY: z.string().optional() },
  requires: [places],
  state: { lastCity: z.string().optional() },
  migrations: { '001-a': async (db) => void db },
  setup: async ({ env, plugins, log }) => {
    same<typeof env, { UNITS: 'celsius' | 'fahrenheit'; KEY: string | undefined }>()
    same<(typeof plugins)['places'], { find: (name: string) => { name: string; lat: number } }>()
    log.info('hello')
    return { current: async (city: string) => ({ city, temp_c: 3 }) }
  },
  prompt: ({ state }) => state.lastCity,
  tools: {
    now: {
      description: 'x',
      input: ask,
      output: z.object({ temp_c: z.number() }),
      can: { can: 'weather/read', with: ({ city }) => city },
      approve: ({ city }) => city === 'x',
      async run({ city }, { self, state, stateOf, user, plugins }) {
        same<typeof city, string>()
        same<typeof user, User>()
        const reading = await self.current(city)
        same<typeof reading, { city: string; temp_c: number }>()
        state.lastCity = reading.city
        // @ts-expect-error a state key of one's own has its schema's type
        state.lastCity = 4
        same<typeof state, { lastCity: string | undefined }>()
        const other = stateOf(places)
        same<typeof other.seen, number>()
        same<(typeof plugins)['places']['find'], (name: string) => { name: string; lat: number }>()
        return reading
      },
    },
    later: { description: 'y', input: z.object({ days: z.number() }), run: ({ days }) => days + 1 },
  },
  subAgents: { planner: { description: 'p', prompt: 'p', tools: ['now', 'later'] } },
  middleware: {
    async model(ctx, next) {
      same<typeof ctx.state, { lastCity: string | undefined }>()
      return await next()
    },
    tool: (call, ctx, next) => next(),
  },
  routes: {
    'GET /weather/now': {
      auth: 'public',
      input: ask,
      run: async ({ city }, { self, signal, user }) => {
        same<typeof city, string>()
        same<typeof user, User | undefined>()
        return { ok: true, ...(await self.current(city)) }
      },
    },
    'GET /weather/:country/:place': {
      run: (params, { user, state, audit }) => {
        audit({ who: 'phone:…789', note: 'n-1', version: 3, absent: undefined })
        // @ts-expect-error a fact is an id or a number, never a thing with words in it
        audit({ note: { words: 'x' } })
        same<typeof params, { country: string; place: string }>()
        same<typeof user, User>()
        same<typeof state, { lastCity: string | undefined }>()
        return { ...params, by: user.did }
      },
    },
  },
})
same<
  ToolsOf<typeof weather>,
  {
    now: { input: { city: string }; output: { temp_c: number } }
    later: { input: { days: number }; output: unknown }
  }
>()

definePlugin({
  name: 'a',
  summary: 'a',
  routes: {
    // @ts-expect-error A route key reads "METHOD /path"
    'FETCH /a': { run: () => 1 },
  },
})
definePlugin({
  name: 'b',
  summary: 'b',
  tools: { one: { description: 'one', input: z.object({}), run: () => 1 } },
  // @ts-expect-error a sub-agent may list only tools of its plugin
  subAgents: { s: { description: 's', prompt: 's', tools: ['two'] } },
})
const late = definePlugin({
  name: 'c',
  summary: 'c',
  env: { A: z.string() },
  setup: ({ env }) => ({ a: env.A.length }),
  tools: ({ self, env }) => {
    same<typeof self, { a: number }>()
    return {
      made: {
        description: env.A,
        input: z.object({ n: z.number() }),
        run: ({ n }: { n: number }, ctx) => ctx.self.a + n,
      },
    }
  },
  // In the function form the input is written out; everything else is still inferred.
  routes: ({ self }) => ({
    'POST /c/:id': {
      auth: 'bearer',
      run: ({ id }: { id: string }, ctx) => {
        same<typeof ctx.user, User | undefined>()
        return { id, caller: ctx.caller, a: self.a }
      },
    },
  }),
})
same<ToolsOf<typeof late>, { made: { input: { n: number }; output: unknown } }>()
// @ts-expect-error a peer that is not required is not there
definePlugin({ name: 'd', summary: 'd', setup: ({ plugins }) => plugins.places })
definePlugin({
  name: 'e',
  summary: 'e',
  routes: {
    'GET /e': {
      // @ts-expect-error auth is one of four words
      auth: 'ucann',
      run: () => 1,
    },
    'POST /e/:id': {
      input: z.object({ id: z.string(), n: z.number() }),
      auth: 'bearer',
      run: ({ id, n }) => id + n,
    },
  },
})
definePlugin({
  name: 'f',
  summary: 'f',
  // @ts-expect-error an input is a schema
  routes: { 'POST /f': { input: { id: 'string' }, run: () => 1 } },
})
definePlugin({
  name: 'g',
  summary: 'g',
  // @ts-expect-error an output is a schema
  tools: { one: { description: 'g', input: z.object({}), output: { n: 1 }, run: () => 1 } },
})
definePlugin({
  name: 'h',
  summary: 'h',
  tools: {
    one: {
      description: 'h',
      effect: 'read',
      foreign: false,
      approve: false,
      input: z.object({ n: z.number() }),
      run: ({ n }, { approvals }) => {
        same<typeof approvals, 'events' | 'words' | false>()
        return n
      },
    },
    two: {
      description: 'h',
      foreign: true,
      input: z.object({ n: z.number() }),
      approve: ({ n }, { approvals }) => n > 1 && approvals !== false,
      run: ({ n }) => n,
    },
  },
})
definePlugin({
  name: 'i',
  summary: 'i',
  // @ts-expect-error foreign is true or false
  tools: { one: { description: 'i', input: z.object({}), foreign: 'no', run: () => 1 } },
})
