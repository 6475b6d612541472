import { z } from 'zod'
import {
  attended,
  created,
  parts,
  partsOf,
  reply,
  text,
  type AskableModel,
  type Attendance,
  type OfferedModels,
  type PluginEntry,
} from '../core/index.ts'
import {
  definePlugin,
  type ClientCall,
  type EarlyEnd,
  type EndedTurn,
  type OpenTurn,
  type ToolsOf,
  type StateOf,
  type SelfOf,
  type User,
} from '../core/plugin.ts'

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
    call_planner: { input: { task: string }; output: string }
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
      // @ts-expect-error The auth of a route is "ucan", "public", "bearer", "operator" or "own"
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
const row = z.object({ id: z.string(), n: z.number().default(1) })
const many = z.union([
  z.object({ ok: z.literal(true), id: z.string() }),
  z.object({ ok: z.literal(false) }),
])
definePlugin({
  name: 'uses',
  summary: 'Uses a peer that may be missing.',
  requires: [places],
  uses: [weather],
  setup: ({ plugins }) => {
    same<
      (typeof plugins)['weather'],
      { current: (city: string) => Promise<{ city: string; temp_c: number }> } | undefined
    >()
    same<(typeof plugins)['places'], { find: (name: string) => { name: string; lat: number } }>()
    return { now: (city: string) => plugins.weather?.current(city) }
  },
  tools: {
    now: {
      description: 'x',
      input: ask,
      run: ({ city }, { plugins, self }) => {
        same<
          typeof self.now,
          (city: string) => Promise<{ city: string; temp_c: number }> | undefined
        >()
        // @ts-expect-error the peer may be missing
        void plugins.weather.current
        return plugins.weather?.current(city)
      },
    },
  },
})
// @ts-expect-error a peer is an imported plugin, not its name
definePlugin({ name: 'uses-text', summary: 'x', uses: ['weather'] })
definePlugin({
  name: 'no-input',
  summary: 'A tool that forgot its input.',
  tools: {
    // @ts-expect-error A tool has an "input"
    one: { description: 'x', run: () => 1 },
    two: {
      description: 'x',
      input: z.object({ n: z.number() }),
      run: ({ n }) => {
        same<typeof n, number>()
        return n
      },
    },
  },
})
definePlugin({
  name: 'own-auth',
  summary: 'Routes with a check of their own.',
  env: { SECRET: z.string() },
  routes: {
    'POST /own/:id': {
      auth: 'own',
      verify: ({ headers }, { env }) => (headers.x === env.SECRET ? { caller: 'x' } : undefined),
      run: ({ id }, { user, caller }) => {
        same<typeof id, string>()
        same<typeof caller, string>()
        same<typeof user, User | undefined>()
        return id
      },
    },
  },
})
definePlugin({
  name: 'outputs',
  summary: 'Outputs.',
  setup: () => ({ find: async (id: string) => ({ id, n: 2 }) }),
  tools: {
    before: {
      description: 'x',
      output: row,
      input: z.object({ id: z.string() }),
      run: ({ id }, { self }) => {
        same<typeof id, string>()
        same<typeof self.find, (id: string) => Promise<{ id: string; n: number }>>()
        return { id }
      },
    },
    after: {
      description: 'x',
      input: z.object({ id: z.string() }),
      async run({ id }, { self }) {
        same<typeof id, string>()
        return await self.find(id)
      },
      output: row,
    },
    either: {
      description: 'x',
      input: z.object({ id: z.string() }),
      output: many,
      run: ({ id }) => (id ? { ok: true, id } : { ok: false }),
    },
    fixed: { description: 'x', input: z.object({}), output: row, run: () => ({ id: 'x' }) },
    wrong: {
      description: 'x',
      input: z.object({ id: z.string() }),
      output: row,
      // @ts-expect-error n is a number
      run: ({ id }) => ({ id, n: 'two' }),
    },
    missing: {
      description: 'x',
      input: z.object({ n: z.number() }),
      output: row,
      // @ts-expect-error id is missing
      run: async ({ n }) => ({ n }),
    },
    method: {
      description: 'x',
      input: z.object({ n: z.number() }),
      output: many,
      // @ts-expect-error id is missing where ok is true
      run({ n }) {
        return n > 1 ? { ok: true } : { ok: false }
      },
    },
  },
  routes: {
    'GET /outputs/:id': {
      output: row,
      run: async ({ id }, { self, user }) => {
        same<typeof id, string>()
        same<typeof user, User>()
        return id ? await self.find(id) : reply(404, { id: 'none' })
      },
    },
    'POST /outputs': {
      auth: 'public',
      input: z.object({ n: z.number() }),
      run: ({ n }, { user }) => {
        same<typeof n, number>()
        same<typeof user, User | undefined>()
        return n > 1 ? created('/outputs/1', { id: '1' }) : { id: '1', n }
      },
      output: row,
    },
    'GET /outputs/a/either': {
      output: many,
      run: (_, { user }) => (user.did ? reply(200, { ok: true, id: 'x' }) : { ok: false }),
    },
    'GET /outputs/a/method': {
      auth: 'bearer',
      async run({}, { self, caller }) {
        same<typeof caller, string>()
        return created('/outputs/1', await self.find(caller))
      },
      output: row,
    },
    'GET /outputs/a/fixed': { output: row, run: () => ({ id: 'x' }) },
    'GET /outputs/a/status': {
      output: row,
      run: async (_, { koa }): Promise<ReturnType<typeof reply<{ id: string }>>> =>
        reply(koa.ip ? 202 : 409, { id: koa.ip }),
    },
    'DELETE /outputs/:id': { output: row, run: ({ id }) => (id ? reply(204) : { id }) },
    'GET /outputs/a/words': { output: z.string(), run: () => text('words') },
    'GET /outputs/a/wrong': {
      output: row,
      // @ts-expect-error n is a number
      run: ({}, { caller }) => ({ id: caller, n: 'two' }),
    },
    'GET /outputs/a/missing': {
      // @ts-expect-error id is missing
      run: () => ({ n: 1 }),
      output: row,
    },
    'GET /outputs/a/wrong/reply': {
      output: row,
      // @ts-expect-error n is a number, in a reply too
      run: () => reply(200, { id: 'x', n: 'two' }),
    },
    'GET /outputs/a/wrong/status': {
      output: row,
      // @ts-expect-error an error's words do not fit: throw a RuntimeError, or name them in the output
      run: async ({}, { self }) => ((await self.find('x')).n ? { id: 'x' } : reply(404, 'none')),
    },
    'GET /outputs/a/wrong/created': {
      output: row,
      // @ts-expect-error id is missing in what was made
      async run() {
        return created('/outputs/1', { n: 1 })
      },
    },
    'GET /outputs/a/wrong/either': {
      output: many,
      // @ts-expect-error id is missing where ok is true
      run: (_, { user }) => (user.did ? reply(200, { ok: true }) : { ok: false }),
    },
    'GET /outputs/a/wrong/empty': {
      output: row,
      // @ts-expect-error a reply without a body has no row
      run: () => reply(200),
    },
    'GET /outputs/a/wrong/text': {
      // @ts-expect-error words are no row
      run: () => text('words'),
      output: row,
    },
    // @ts-expect-error nobody knows what a Response holds
    'GET /outputs/a/wrong/response': { output: row, run: () => new Response('{"id":"x"}') },
    'GET /outputs/a/wrong/promise': {
      output: row,
      // @ts-expect-error nobody knows what a Response holds, in a promise neither
      run: async () => Response.json({ id: 'x' }),
    },
    'GET /outputs/a/wrong/stream': {
      output: row,
      // @ts-expect-error a stream is no row
      async *run() {
        yield { event: 'a' }
      },
    },
  },
})
definePlugin({
  name: 'no-outputs',
  summary: 'Answers of every kind.',
  routes: {
    'GET /any/response': { run: () => new Response('bytes') },
    'GET /any/text': { run: () => text('words') },
    'GET /any/reply': { run: () => reply(404, { anything: 1 }) },
    'GET /any/either': { run: ({}, { user }) => (user.did ? new Response('bytes') : { a: 1 }) },
    'GET /any/stream': {
      async *run() {
        yield { event: 'a' }
      },
    },
  },
})
definePlugin({
  name: 'tool-answers',
  summary: 'A tool answers with values.',
  tools: {
    served: {
      description: 'x',
      input: z.object({}),
      output: row,
      // @ts-expect-error an answer of a route is no result of a tool
      run: () => reply(200, { id: 'x' }),
    },
    response: {
      description: 'x',
      input: z.object({ url: z.string() }),
      output: row,
      // @ts-expect-error a Response is no row
      run: ({ url }) => fetch(url),
    },
  },
})
definePlugin({
  name: 'outputs-late',
  summary: 'Outputs of sections that functions make.',
  // @ts-expect-error id is missing
  routes: () => ({
    'GET /late': { output: row, run: () => ({ n: 1 }) },
  }),
})
definePlugin({
  name: 'replies-late',
  summary: 'Replies of sections that functions make.',
  // @ts-expect-error id is missing
  routes: () => ({
    'GET /late': { output: row, run: () => reply(200, { n: 1 }) },
  }),
})
definePlugin({
  name: 'outputs-in-time',
  summary: 'Outputs of sections that functions make.',
  setup: () => ({ a: 1 }),
  tools: ({ self }) => ({
    now: {
      description: 'x',
      input: z.object({}),
      output: row,
      run: () => ({ id: 'x', n: self.a }),
    },
  }),
  routes: ({ self }) => ({
    'GET /late': { output: row, run: () => reply(202, { id: 'x', n: self.a }) },
  }),
})
definePlugin({
  name: 'limits',
  summary: 'Limits.',
  env: { PER_MINUTE: z.coerce.number().default(5), WORDS: z.string().default('') },
  setup: () => ({ a: 1 }),
  routes: {
    'GET /limits/:id': {
      auth: 'public',
      limit: ({ PER_MINUTE }) => {
        same<typeof PER_MINUTE, number>()
        return { max: PER_MINUTE, perMs: 60_000, by: (koa) => koa.ip }
      },
      run: ({ id }, { self, env }) => {
        same<typeof id, string>()
        same<typeof env, { PER_MINUTE: number; WORDS: string }>()
        return self.a
      },
    },
    'POST /limits': {
      input: z.object({ n: z.number() }),
      run: ({ n }, { user }) => {
        same<typeof user, User>()
        return n
      },
      limit: (env) => ({ max: env.PER_MINUTE, perMs: 1 }),
    },
    'GET /limits': {
      // @ts-expect-error the numbers of a limit are numbers
      limit: (env) => ({ max: env.WORDS, perMs: 1 }),
      run: () => 1,
    },
  },
})
definePlugin({
  name: 'i',
  summary: 'i',
  // @ts-expect-error foreign is true or false
  tools: { one: { description: 'i', input: z.object({}), foreign: 'no', run: () => 1 } },
})

const reminders = definePlugin({
  name: 'reminders',
  summary: 'Reminds.',
  requires: [places],
  setup: ({ jobs }) => {
    void jobs.later('remind', { words: 'w', at: 1 })
    return { told: (words: string) => words.length }
  },
  jobs: {
    remind: {
      input: z.object({
        words: z.string(),
        at: z.number().optional(),
        many: z.number().default(1),
      }),
      attempts: 3,
      async run(data, { job, self, jobs, plugins }) {
        same<typeof data, { words: string; at?: number | undefined; many: number }>()
        same<typeof job.dueAt, Date>()
        same<(typeof plugins)['places']['find'], (name: string) => { name: string; lat: number }>()
        const told: number = self.told(data.words)
        await jobs.later('sweep')
        if (told > 3) job.giveUp('long')
      },
    },
    sweep: {
      every: '15m',
      run: (data) => {
        same<typeof data, undefined>()
      },
    },
  },
  tools: {
    remind_me: {
      description: 'x',
      input: ask,
      async run({ city }, { jobs, db, user }) {
        const { id, isNew } = await jobs.later('remind', { words: city }, { key: 'k', inMs: 5 })
        same<typeof id, string>()
        same<typeof isNew, boolean>()
        await db.transaction().execute((trx) => jobs.within(trx).later('remind', { words: city }))
        await db
          .withTables<{ notes: { id: string } }>()
          .transaction()
          .execute((trx) => jobs.within(trx).later('remind', { words: city }, { user: user.did }))
        same<Awaited<ReturnType<typeof jobs.cancel>>, boolean>()
        // @ts-expect-error a job that the plugin does not have
        await jobs.later('remnid', { words: city })
        // @ts-expect-error data that does not fit the input
        await jobs.later('remind', { words: 1 })
        // @ts-expect-error data that is missing
        await jobs.later('remind')
        // @ts-expect-error a job without input takes no data
        await jobs.later('sweep', { n: 1 })
        return id
      },
    },
  },
  routes: {
    'POST /remind': {
      auth: 'public',
      async run(_, { jobs }) {
        // @ts-expect-error data that does not fit the input
        await jobs.later('remind', { word: 'w' })
        return jobs.later('remind', { words: 'w' })
      },
    },
  },
})
same<typeof reminders.name, 'reminders'>()

definePlugin({
  name: 'made-later',
  summary: 'Makes its tools and routes of what boot found.',
  setup: (boot) => ({ jobs: boot.jobs }),
  jobs: { send: { input: z.object({ to: z.string() }), run: () => undefined } },
  prompt: ({ jobs }) => {
    // @ts-expect-error data that does not fit the input
    void jobs.later('send', { to: 1 })
    return undefined
  },
  middleware: {
    async turn({ jobs }, next) {
      await jobs.later('send', { to: 'x' })
      await next()
    },
  },
  tools: (boot) => {
    // @ts-expect-error a job that the plugin does not have
    void boot.jobs.later('sent', { to: 'x' })
    return {
      send: {
        description: 'x',
        input: z.object({ to: z.string() }),
        run: ({ to }: { to: string }) => boot.jobs.later('send', { to }),
      },
    }
  },
  routes: () => ({
    'GET /send/:to': {
      auth: 'public',
      run: ({ to }: { to: string }, { jobs }) => {
        // @ts-expect-error data that does not fit the input
        void jobs.later('send', { too: to })
        return jobs.later('send', { to })
      },
    },
  }),
})

definePlugin({
  name: 'misdeclared',
  summary: 'Misdeclares jobs.',
  // @ts-expect-error an input is a schema
  jobs: { one: { input: 5, run: () => 1 } },
})
definePlugin({
  name: 'misdeclared-too',
  summary: 'Misdeclares jobs.',
  jobs: {
    // @ts-expect-error attempts is a number
    one: { attempts: '5', run: () => 1 },
  },
})

const getting = definePlugin({
  name: 'getting',
  summary: 'Has tools to lend.',
  tools: {
    get_current: { description: 'x', input: ask, output: row, run: () => ({ id: 'x' }) },
    get_later: { description: 'x', input: ask, run: () => 1 },
  },
})
const asking = definePlugin({
  name: 'asking',
  summary: 'Has sub-agents.',
  env: { KEY: z.string() },
  requires: [getting],
  uses: [weather],
  state: { asked: z.number().default(0) },
  setup: ({ env }) => ({ of: (city: string) => city + env.KEY }),
  tools: {
    own: { description: 'x', input: z.object({ n: z.number() }), run: ({ n }) => n },
  },
  subAgents: {
    usual: { description: 'x', prompt: 'p', tools: ['own'] },
    typed: {
      description: 'x',
      input: z.object({ city: z.string(), days: z.number().default(1) }),
      output: row,
      prompt: async ({ city, days }, { self, state, user, plugins }) => {
        same<typeof city, string>()
        same<typeof days, number>()
        same<typeof user, User>()
        state.asked += days
        void plugins.weather?.current(city)
        return self.of(city)
      },
      borrow: [
        [getting, 'get_current'],
        [weather, 'now'],
      ],
      maxCalls: 3,
      timeoutMs: 1000,
    },
    by_words: {
      description: 'x',
      prompt: ({ task }, { state }) => {
        same<typeof task, string>()
        same<typeof state, { asked: number }>()
        return task
      },
      borrow: [[getting, 'get_later']],
    },
  },
})
same<
  ToolsOf<typeof asking>,
  {
    own: { input: { n: number }; output: unknown }
    call_usual: { input: { task: string }; output: string }
    call_typed: { input: { city: string; days?: number }; output: { id: string; n: number } }
    call_by_words: { input: { task: string }; output: string }
  }
>()
definePlugin({
  name: 'borrows-wrong',
  summary: 'x',
  requires: [getting],
  subAgents: {
    one: {
      description: 'x',
      prompt: 'x',
      borrow: [
        [
          getting,
          // @ts-expect-error a tool that the plugin does not have
          'get_curent',
        ],
      ],
    },
    two: {
      description: 'x',
      prompt: 'x',
      // @ts-expect-error a plugin that is neither required nor used
      borrow: [[weather, 'now']],
    },
    three: {
      description: 'x',
      // @ts-expect-error a prompt is text
      prompt: async ({ task }) => task.length,
    },
  },
})
definePlugin({
  name: 'output-wrong',
  summary: 'x',
  // @ts-expect-error an output is a schema
  subAgents: { four: { description: 'x', prompt: 'x', output: { n: 1 } } },
})
definePlugin({
  name: 'input-wrong',
  summary: 'x',
  // @ts-expect-error an input is a schema
  subAgents: { four: { description: 'x', prompt: 'x', input: 5 } },
})
definePlugin({
  name: 'given',
  summary: 'Has tools of the user.',
  env: { KEY: z.string() },
  setup: () => ({ listed: async (did: string) => [did] }),
  async toolsFor({ self, user, env, signal }) {
    signal.throwIfAborted()
    const names = await self.listed(user.did)
    return Object.fromEntries(
      names.map((name) => [
        name,
        {
          description: name,
          parameters: { type: 'object', properties: {} },
          effect: 'read' as const,
          run: (args: Readonly<Record<string, unknown>>) => [args, env.KEY],
        },
      ]),
    )
  },
  toolsForMs: 5000,
})
definePlugin({
  name: 'given-now',
  summary: 'Has tools of the user.',
  state: { n: z.number().default(0) },
  toolsFor: ({ user }) => ({
    ping: {
      description: user.did,
      parameters: {},
      approve: ({ host }, { state }) => {
        same<typeof host, unknown>()
        return state.n > 1
      },
      run: ({ host }, { state }) => {
        same<typeof state, { n: number }>()
        return host
      },
    },
  }),
})
definePlugin({
  name: 'given-wrong',
  summary: 'Has tools of the user.',
  // @ts-expect-error parameters are missing
  toolsFor: () => ({ ping: { description: 'x', run: () => 1 } }),
})
const ledger = definePlugin({
  name: 'ledger',
  summary: 'Gates turns.',
  env: { LEDGER_ROOM: z.coerce.number().default(3) },
  requires: [places],
  uses: [weather],
  setup: ({ env }) => ({ room: env.LEDGER_ROOM }),
  jobs: { bill: { input: z.object({ runId: z.string() }), run: () => undefined } },
  runs: {
    async admit(run, { self, env, plugins }) {
      same<typeof self, { room: number }>()
      same<typeof env, { LEDGER_ROOM: number }>()
      same<(typeof plugins)['places'], { find: (name: string) => { name: string; lat: number } }>()
      void plugins.weather?.current('Oslo')
      same<typeof run.source, 'http' | 'plugin'>()
      same<typeof run.user, User>()
      void run.koa?.ip
      // @ts-expect-error the words of the message are not among the facts
      void run.message
      // @ts-expect-error the run has no id before it is recorded
      void run.runId
    },
    async begin({ runId, metadata }, { db, jobs, signal }) {
      same<typeof runId, string>()
      same<typeof metadata, Readonly<Record<string, unknown>> | undefined>()
      signal.throwIfAborted()
      await db
        .withTables<{ holds: { run: string } }>()
        .insertInto('holds')
        .values({ run: runId })
        .execute()
      await jobs.later('bill', { runId }, { key: runId })
      // @ts-expect-error the plugin has no such job
      await jobs.later('bil', { runId })
    },
    wants({ runId, user }, { self }) {
      same<typeof runId, string>()
      same<typeof user, User>()
      return self.room > 0
    },
    async end(run, { jobs }) {
      same<typeof run.status, 'finished' | 'aborted' | 'failed' | 'interrupted'>()
      for (const { model, inputTokens, outputTokens, estimated } of run.usage)
        (same<typeof estimated, true | undefined>(), void [model, inputTokens, outputTokens])
      const words = await run.reply()
      same<typeof words, string>()
      await jobs.later('bill', { runId: run.runId })
      // @ts-expect-error the data of a job has its schema's type
      await jobs.later('bill', { runId: 7 })
    },
  },
  prompt: ({ self }) => `${self.room}`,
})
same<SelfOf<typeof ledger>, { room: number }>()

definePlugin({
  name: 'maybe-ledger',
  summary: 'Gates turns when it is told to.',
  env: { PRICE: z.coerce.number().default(0) },
  setup: () => ({ held: new Set<string>() }),
  runs: ({ env, self }) =>
    env.PRICE === 0 ? undefined : { begin: ({ runId }) => void self.held.add(runId) },
})

definePlugin({
  name: 'telling',
  summary: 'Tells strangers what it takes.',
  env: { PRICE: z.coerce.number().default(0) },
  setup: () => ({ taken: 0 }),
  facts({ env, self }) {
    same<typeof env, { PRICE: number }>()
    same<typeof self, { taken: number }>()
    return { price: `${env.PRICE} coins`, taken: async () => self.taken }
  },
  headers: { allow: ['Toll-Token'], expose: ['Toll-Paid'] },
  views: { tolls: { label: { en: 'Tolls' }, module: '/tolls/view.js', feature: 'operator' } },
})

definePlugin({
  name: 'wrong-telling',
  summary: 'Tells what nobody reads.',
  // @ts-expect-error a view has a word in English
  views: { tolls: { label: { fr: 'Péages' }, module: '/tolls/view.js' } },
  // @ts-expect-error the lists are allow and expose
  headers: { allowed: [] },
})

definePlugin({
  name: 'wrong-ledger',
  summary: 'Gates nothing.',
  runs: {
    // @ts-expect-error the section has admit, begin, wants and end
    admits: () => undefined,
  },
})

const rooming = definePlugin({
  name: 'rooming',
  summary: 'Keeps lists of rooms.',
  state: {
    list: z.array(z.string()).default([]).meta({ scope: 'room' }),
    owner: z.string().optional().meta({ scope: 'room' }),
  },
  setup: ({ rooms, turns }) => ({
    async add(room: string, what: string) {
      const result = await rooms.update({ room }, (state) => {
        same<typeof state.list, string[]>()
        same<typeof state.owner, string | undefined>()
        state.list.push(what)
        // @ts-expect-error a state key has its schema's type
        state.owner = 5
        // @ts-expect-error the plugin has no such key
        state.lists = []
      })
      same<typeof result, void>()
      // @ts-expect-error a room, or the user whose own room it is
      await rooms.update({ rom: room }, () => undefined)
      const { list } = await rooms.read({ room })
      same<typeof list, string[]>()
      return list
    },
    async ask(did: string) {
      const turn = turns.start({ user: { did }, room: 'hall', message: 'Hello' })
      for await (const event of turn) {
        if (event.event === 'done')
          same<
            typeof event.data.status,
            'finished' | 'aborted' | 'interrupted' | 'failed' | 'waiting'
          >()
        else if (event.event === 'message') same<typeof event.data.content, string>()
        else if (event.event === 'run') same<typeof event.data.resumed, true | undefined>()
        // @ts-expect-error another event has no status of a turn
        else if (event.event === 'reasoning') void event.data.status
        // @ts-expect-error no event has this name
        if (event.event === 'finished') return undefined
      }
      turns.start({ user: { did }, room: 'hall', shared: true, approvals: 'events', message: 'Hi' })
      // @ts-expect-error nobody shows approvals by another name
      turns.start({ user: { did }, message: 'Hello', approvals: 'buttons' })
      // @ts-expect-error the three answers to a busy session
      turns.start({ user: { did }, message: 'Hello', whenBusy: 'queue' })
      const tools = [{ name: 'send', schema: { type: 'object' } }]
      const history = [{ role: 'user' as const, content: 'Hi' }]
      const parked = turns.start({
        ...{ user: { did }, session: 'a', message: 'Hello', tools, history },
        ...{ clientTools: 'park', approvals: 'words', timezone: 'Africa/Lusaka', language: 'sw' },
      })
      same<typeof parked.spoke, Promise<void>>()
      turns.start({ user: { did }, message: 'Hello', ephemeral: true, approvals: false })
      // @ts-expect-error a line is the user's or the assistant's
      turns.start({ user: { did }, message: 'Hello', history: [{ role: 'tool', content: '' }] })
      for await (const part of partsOf(parked)) {
        if (part.type === 'end') {
          same<typeof part.status, EndedTurn['status']>()
          same<typeof part.ended, EarlyEnd | undefined>()
        } else if (part.type === 'client-calls') same<typeof part.calls, readonly ClientCall[]>()
        // @ts-expect-error only words have a text
        else if (part.type === 'call') void part.text
      }
      const { waiting } = await turns.open({ user: { did }, session: 'a' })
      same<typeof waiting, OpenTurn['waiting']>()
      turns.resume({ user: { did }, runId: 'a', results: [{ toolCallId: 'b', result: 1 }] })
      for await (const { event, data, seq } of turns.events({
        user: { did },
        runId: 'a',
        after: 3,
      })) {
        same<typeof seq, number>()
        if (event === 'done') {
          same<typeof data.status, EndedTurn['status']>()
          same<typeof data.ended, 'length' | 'content_filter' | undefined>()
        }
      }
      const { turns: listed, next } = await turns.list({ user: { did }, status: ['running'] })
      same<(typeof listed)[number]['lastRunId'], string>()
      same<typeof next, string | null>()
      // @ts-expect-error the states of a turn
      await turns.list({ user: { did }, status: ['gone'] })
      return (await turn.begun).runId
    },
  }),
  errors: { '/rooming': ({ status, code }) => ({ status, code }) },
  routes: {
    'GET /rooming/own': { onError: ({ message }) => ({ message }), run: () => ({}) },
  },
})
same<SelfOf<typeof rooming>['add'], (room: string, what: string) => Promise<string[]>>()
same<SelfOf<typeof rooming>['ask'], (did: string) => Promise<string | undefined>>()

definePlugin({
  name: 'media',
  summary: 'Brings media.',
  env: { HOMESERVER: z.string().default('a') },
  requires: [places],
  setup: () => ({ bring: async (uri: string) => Buffer.from(uri) }),
  attachments: {
    'mxc:': (uri, ctx) => {
      same<typeof uri, string>()
      same<typeof ctx.env, { HOMESERVER: string }>()
      same<typeof ctx.user, User>()
      same<typeof ctx.attachment, Readonly<Record<string, unknown>>>()
      ctx.plugins.places.find('a')
      return ctx.self.bring(uri)
    },
    'event:': () => undefined,
    'file:': async () => ({ bytes: new Uint8Array(), mediaType: 'image/png', name: 'a.png' }),
  },
  tools: {
    draw: { description: 'x', input: ask, run: () => parts([{ type: 'text', text: 'x' }]) },
  },
})

definePlugin({
  name: 'wrong-media',
  summary: 'Brings nothing.',
  attachments: {
    // @ts-expect-error bytes, and no text
    'map:': () => 'a map',
  },
})

// @ts-expect-error a picture has its type and its bytes
parts([{ type: 'image', data: new Uint8Array() }])

// Models: what handlers ask them for has the type of its schema, in every handler.
const Table = z.object({ guests: z.coerce.number(), at: z.enum(['noon', 'night']).default('noon') })
type Table = { guests: number; at: 'noon' | 'night' }
const maker = definePlugin({
  name: 'maker',
  summary: 'Brings models, and asks them.',
  env: { MAKER_KEY: z.string().optional() },
  setup: ({ models }) => {
    const named = models.get('maker/large')
    same<typeof named, AskableModel>()
    return { ask: (text: string) => named.text(text), count: 1 }
  },
  models: {
    maker: {
      label: 'Maker',
      needs: ['MAKER_KEY'],
      fault: (_, { env, variable }) => {
        same<typeof env, { MAKER_KEY: string | undefined }>()
        same<typeof variable, string | undefined>()
        return undefined
      },
      open: (name, { env, self, settings, key }) => {
        same<typeof name, string>()
        same<typeof env.MAKER_KEY, string | undefined>()
        same<typeof self.count, number>()
        same<typeof settings.temperature, number | undefined>()
        same<typeof key, string | undefined>()
        return { id: `maker/${name}`, stream: async function* () {} }
      },
      embed: (name, { self }) => ({
        id: `maker/${name}-${self.count}`,
        embed: async (texts, { kind, signal }) => {
          same<typeof texts, readonly string[]>()
          same<typeof kind, 'query' | 'document'>()
          signal.throwIfAborted()
          return { vectors: texts.map(() => new Float32Array(2)) }
        },
      }),
    },
  },
  tools: {
    book: {
      description: 'Books.',
      input: z.object({ words: z.string() }),
      output: z.object({ guests: z.number() }),
      async run({ words }, { model, models }) {
        const table = await model.object(Table, words, { reasoning: 'low', timeoutMs: 1000 })
        same<typeof table, Table>()
        const texts = await model.object(z.array(z.string()), [{ role: 'user', content: words }])
        same<typeof texts, string[]>()
        same<Awaited<ReturnType<typeof model.text>>, string>()
        const { vectors, dimensions } = await models.embed(texts, { kind: 'document' })
        same<typeof vectors, readonly Float32Array[]>()
        same<typeof dimensions, number>()
        // @ts-expect-error what texts are for is said
        await models.embed(texts)
        // @ts-expect-error a schema comes first
        await model.object({ guests: 1 }, words)
        // @ts-expect-error a tool is chosen by no handler
        await model.text(words, { toolChoice: 'none' })
        return table
      },
    },
  },
  subAgents: {
    host: {
      description: 'Hosts.',
      prompt: async (_, { model }) => (await model.object(Table, 'x')).at,
    },
  },
  middleware: {
    async model({ model }, next) {
      same<Awaited<ReturnType<typeof model.text>>, string>()
      return await next()
    },
  },
  routes: {
    'GET /tables': {
      auth: 'ucan',
      run: async (_, { model, models }) => {
        const one = await models.get().object(Table, 'x')
        same<typeof one, Table>()
        return (await model.object(Table, 'x')).guests
      },
    },
  },
  jobs: {
    sort: {
      async run(_, { model, models }) {
        same<typeof models, OfferedModels>()
        const one = await model.object(Table, 'x')
        same<typeof one, Table>()
      },
    },
  },
})
same<SelfOf<typeof maker>['count'], number>()
definePlugin({
  name: 'unopened',
  summary: 'Opens nothing.',
  // @ts-expect-error a provider of models opens them
  models: { none: { label: 'None' } },
})

// A user's data: the functions see what a handler sees, without a user, a session or a turn.
definePlugin({
  name: 'keeper',
  summary: 'Keeps things.',
  env: { SHELF: z.string().default('a') },
  requires: [places],
  setup: () => ({ shelves: ['a'] }),
  userData: {
    async *export(did, { db, env, self, plugins, signal }) {
      same<typeof did, string>()
      same<typeof env, { SHELF: string }>()
      same<typeof signal, AbortSignal>()
      plugins.places.find('a')
      for (const shelf of self.shelves) yield { kind: 'shelf', shelf, keys: typeof db }
    },
    erase: async (_, { self }) => ({
      erased: { shelf: self.shelves.length },
      kept: [{ what: '1 invoice', why: 'The law asks for it.', until: new Date(0) }],
    }),
  },
})
definePlugin({
  name: 'unerasing',
  summary: 'Keeps things for ever.',
  // @ts-expect-error what is exported can be erased
  userData: {
    async *export() {
      yield { kind: 'shelf' }
    },
  },
})
definePlugin({
  name: 'uncounted',
  summary: 'Says not how much is gone.',
  userData: {
    async *export() {
      yield { kind: 'shelf' }
    },
    // @ts-expect-error how many of each kind
    erase: () => ({ erased: 5 }),
  },
})
definePlugin({
  name: 'carrying',
  summary: 'Carries rooms.',
  env: { HOMESERVER: z.string().default('a') },
  setup({ pending, lease, rooms }) {
    const state = { now: 'connecting' }
    pending(Promise.resolve(), () => state.now)
    // @ts-expect-error the sentence of the moment is text
    pending(Promise.resolve(), () => 5)
    const held = lease('device', async ({ epoch, signal, isHeld, hold }) => {
      same<typeof epoch, number>()
      same<typeof signal, AbortSignal>()
      same<ReturnType<typeof isHeld>, boolean>()
      same<ReturnType<typeof hold>, Promise<void>>()
    })
    same<ReturnType<typeof held.heldBy>, Promise<string | undefined>>()
    const account = '@a:example.org'
    void rooms.changed({ did: 'did:a', roomId: '!a', account, change: 'joined', by: account })
    // @ts-expect-error the three changes
    void rooms.changed({ did: 'did:a', roomId: '!a', account, change: 'banned', by: account })
    return { server: 'a' }
  },
  roomIdOf: ({ did }, { self, env }) => {
    same<typeof did, string>()
    return `${env.HOMESERVER}${self.server}`
  },
  members(change, { self }) {
    same<typeof change.plugin, string>()
    same<typeof change.change, 'invited' | 'joined' | 'left'>()
    same<typeof self, { server: string }>()
  },
})

definePlugin({
  name: 'deciding',
  summary: 'Brings decisions.',
  setup: ({ turns }) => ({
    async decide(did: string, runId: string, session: string) {
      const user = { did }
      const turn = turns.resume({ user, runId, decision: 'edit', args: { a: 1 } })
      same<Awaited<typeof turn.ended>['text'], string>()
      // @ts-expect-error the three decisions
      turns.resume({ user, runId, decision: 'maybe' })
      same<boolean, Awaited<ReturnType<typeof turns.abort>>>()
      await turns.abort({ user, session })
      // @ts-expect-error words are taken back turn by turn
      await turns.redact({ user, session })
      for await (const { event, data, requestId } of turns.follow({ user, session })) {
        same<typeof requestId, string>()
        if (event === 'message') same<typeof data.content, string>()
        if (event === 'cut') same<typeof data.messageId, string | undefined>()
      }
      same<boolean, Awaited<ReturnType<typeof turns.cut>>>()
      // @ts-expect-error a cut says how far the reply was heard
      await turns.cut({ user, session, runId })
      return turns.redact({ user, session, requestId: 'a' })
    },
  }),
  prompt: ({ message }) => {
    same<typeof message, string>()
    return message
  },
  runs: {
    async end({ message, shared }) {
      same<Awaited<ReturnType<typeof message>>, string>()
      same<typeof shared, boolean>()
    },
  },
  sessionDeleted({ sessionId, did }, { db, self }) {
    same<typeof sessionId, string>()
    same<typeof did, string>()
    void db
    void self.decide
  },
})

// The door of another protocol: what it asks of turns, tools and sessions, and how it refuses.
definePlugin({
  name: 'door',
  summary: 'Speaks another protocol.',
  setup: ({ tools, sessions, capabilities }) => ({
    tools,
    async facts(user: User) {
      const [tool] = await tools.list({ user })
      same<NonNullable<typeof tool>['effect'], 'read' | 'write'>()
      same<NonNullable<typeof tool>['approve'], boolean | 'depends'>()
      const asksNobody = tools.asksNobody({ user })
      same<typeof asksNobody, (tool: string) => Promise<boolean>>()
      const { text, isCut } = await tools.call({ user, name: 'a', args: {}, decided: 'approve' })
      same<[typeof text, typeof isCut], [string, boolean]>()
      // @ts-expect-error only a yes lets a call run
      await tools.call({ user, name: 'a', decided: 'reject' })
      // @ts-expect-error a call outside a turn is somebody's, with the rights that come along
      await tools.call({ user: { did: 'did:a' }, name: 'a' })
      const { messages, prevCursor } = await sessions.messages({ user, session: 'a', limit: 5 })
      same<(typeof messages)[number]['type'], 'human' | 'ai'>()
      same<typeof prevCursor, string | null>()
      const shown = await sessions.shared({ user, session: 'a' })
      return [capabilities().map(({ name }) => name), Object.keys(shown)]
    },
  }),
  headers: { allow: ['X-Mine'], expose: ['X-Theirs'] },
  errors: {
    // @ts-expect-error what a refusal is made of has no stack
    '/door': ({ stack }) => stack,
  },
  routes: {
    'POST /door': {
      signed: true,
      input: z.object({ says: z.string() }),
      onError: ({ code, requestId }) => ({ code, requestId }),
      run({ says: message }, { user, turns, koa, signal }) {
        const attendance = attended({ signal, koa })
        same<typeof attendance, Attendance>()
        // @ts-expect-error without the request's signal nobody hears of its leaving
        attended({ koa })
        const { reader, signal: leaving } = attended({ signal, stopAfterMs: 0 })
        turns.resume({ user, runId: 'a', decision: 'approve', reader, signal: leaving })
        // @ts-expect-error how long, in milliseconds
        turns.start({ user, message, whenAlone: 30_000 })
        return turns.start({ user, message, koa, ...attendance })
      },
    },
  },
})
const made: PluginEntry = (env) => (env.MANY ? [weather, places] : [places])
void made
// @ts-expect-error what the environment makes are plugins
const wrong: PluginEntry = () => ['weather']
void wrong
