import { z } from 'zod'
import { definePlugin, RuntimeError } from '#core'
import { environment } from './environment.ts'
import { forgetSession, roomsOf } from './kept/erasing.ts'
import { mostAttempts, Remembering, whereOf } from './remembering.ts'
import {
  changedMemory,
  exportShape,
  importInput,
  listQuery,
  listShape,
  memoryShape,
  newMemory,
  sessionShape,
  settingsShape,
  statusShape,
  usedShape,
  wholeShape,
} from './routes/shapes.ts'
import { migrations, type Mode, withMemoryTables } from './tables.ts'

// A server that starts needs none of these: they come with the first request, and with the first turn.
const pages = () => import('./routes/pages.ts')
const more = () => import('./routes/more.ts')
let loaded: Promise<typeof import('./tools.ts')> | undefined
const tools = () => (loaded ??= import('./tools.ts'))

/** An id as it came: one that we never made is nobody's, which is 404 as for somebody else's. */
const byId = z.object({ id: z.string().max(100) })
const bySession = z.object({ id: z.string().min(1).max(100) })

export default definePlugin({
  name: 'memory',
  version: '1.0.0',
  summary:
    'What the oracle remembers of a person from session to session, and how that person rules it.',
  whenToUse: ['The person asks to remember or to forget something, or what is known of them.'],
  examples: ['Remember that I live in Lusaka.', 'Where do I live?', 'Forget where I live.'],
  tags: ['memory', 'remember', 'forget', 'recall', 'privacy'],
  visibility: 'always',
  stability: 'beta',
  category: 'memory',

  env: environment,
  migrations,

  setup({ env, db, log, now, models, onReady, health }) {
    let reader: string | undefined
    onReady(() => {
      if (!isDemonstration(models.get(env.MEMORY_MODEL).id)) return
      reader = readByRules
      log.info(`memory: ${reader}`)
    })
    health(() => reader)
    return Remembering.open({ env, db, log, now })
  },

  jobs: {
    notice: {
      input: z.object({ did: z.string(), sessionId: z.string(), runId: z.string().optional() }),
      attempts: mostAttempts,
      timeoutMs: 120_000,
      async run({ did, sessionId, runId }, { self, env, models, job }) {
        const usual = models.get(env.MEMORY_MODEL)
        const model = isDemonstration(usual.id) ? undefined : usual
        const isLast = job.attempt >= mostAttempts
        await self.notice(did, sessionId, { model, signal: job.signal, runId, isLast })
      },
    },
    vectors: {
      input: z.object({ owner: z.string(), model: z.string() }),
      attempts: mostAttempts,
      timeoutMs: 300_000,
      run: ({ owner, model }, { self, models, job }) =>
        self.makeVectors(owner, model, { models, signal: job.signal }),
    },
    wipe: { run: (_, { self }) => self.wipe() },
    sweep: { every: '6h', run: (_, { self }) => self.sweep() },
    // What was written before MEMORY_KEY, or under the key before it, is sealed by the key of now.
    reseal: {
      every: '1h',
      timeoutMs: 600_000,
      async run(_, { self, log }) {
        const rows = await self.reseal()
        if (rows > 0) log.info({ rows }, 'Sealed what was remembered with MEMORY_KEY.')
      },
    },
  },

  runs: {
    // Most people were never asked, or said no: the ends of their turns cost nothing.
    wants: (run, { self, db }) => run.from === 'user' && self.begins(withMemoryTables(db), run),
    async end(run, { self, db, jobs, env }) {
      if (run.from !== 'user' || run.shared || !run.said) return
      const { runId, sessionId, did } = run
      const trx = withMemoryTables(db)
      const ended = { runId, sessionId, did, at: run.startedAt.getTime() }
      // The words are not even read where nothing of them is to be kept.
      const standing = await self.ends(trx, ended)
      if (standing.mode !== 'on') return
      const turn = { ...ended, words: await run.message(), reply: await run.reply() }
      if (!(await self.hear(trx, turn, standing))) return
      const isFull = standing.unread + 1 >= env.MEMORY_AFTER_TURNS
      const inMs = isFull ? 0 : env.MEMORY_AFTER_SECONDS * 1_000 + 500
      await jobs.later('notice', { did, sessionId, runId }, { inMs, key: runId, user: did })
    },
  },

  async sessionDeleted({ sessionId, did }, { self, db, jobs }) {
    const trx = withMemoryTables(db)
    const owners = [
      ...((await self.isKnown(did, trx)) ? [did] : []),
      ...(await roomsOf(trx, sessionId)),
    ]
    if (owners.length === 0) return
    for (const owner of owners) {
      await self.memories.lock(trx, owner)
      await forgetSession(trx, self.passages, owner, sessionId)
    }
    // The log can be emptied once this transaction is over.
    await jobs.later('wipe', undefined, { key: sessionId, user: did })
  },

  async members({ did, room, account, change, by }, { self, env }) {
    if (account !== env.MEMORY_ENGINE_USER_ID || change === 'joined') return
    // Only in the room of the person and the oracle alone, and no account invites itself.
    if (room !== undefined || (change === 'invited' && by === account)) return
    const mode: Mode = change === 'invited' ? 'on' : 'paused'
    await self.choose(did, { mode })
  },

  facts: ({ env }) => ({
    memory: {
      mode: env.MEMORY_MODE,
      ...(env.MEMORY_ENGINE_USER_ID !== undefined && { engineUserId: env.MEMORY_ENGINE_USER_ID }),
    },
  }),

  userData: {
    async *export(did, { self }) {
      const { exported } = await pages()
      const { memories, settings } = await exported(self, did)
      yield { kind: 'memory-settings', ...settings }
      for (const { kind: sort, ...memory } of memories) yield { kind: 'memory', sort, ...memory }
    },
    async erase(did, { self }) {
      const erased = await self.eraseAll(did, true)
      return { erased: { memory: erased } }
    },
  },

  prompt: (ctx) =>
    ctx.self.prompt(whereOf(ctx), {
      requestId: ctx.requestId,
      question: ctx.message,
      models: ctx.models,
      signal: ctx.signal,
      lack: (owner, model, version) =>
        ctx.jobs.later(
          'vectors',
          { owner, model },
          {
            key: `${owner} ${model} ${version}`.slice(0, 200),
            // It goes with what is kept of the person; that of a room is of no person.
            ...(!ctx.shared && { user: owner }),
          },
        ),
    }),

  toolsFor: async (ctx) => (await tools()).toolsOf(ctx),

  web: {
    '/memory-page': async (ctx, next) => (await import('./routes/view.ts')).serveView(ctx, next),
    '/memory-chat': async (ctx, next) => (await import('./routes/view.ts')).serveWithin(ctx, next),
  },
  views: {
    memory: {
      label: { en: 'Memory', sw: 'Kumbukumbu', fr: 'Mémoire' },
      module: '/memory-page/view.js',
      order: 70,
    },
    'memory-used': {
      label: { en: 'Used' },
      module: '/memory-chat/within.js',
      within: 'answer',
    },
    'memory-incognito': {
      label: { en: 'Incognito' },
      module: '/memory-chat/within.js',
      within: 'composer',
    },
  },

  routes: {
    'GET /memory': {
      summary: 'What is remembered of the caller, by a question or the newest first.',
      input: listQuery,
      output: listShape,
      run: async (query, { self, user }) => (await pages()).list(self, user.did, query),
    },
    'POST /memory': {
      summary: 'Remembers a sentence that the caller writes. 200 when it was known.',
      input: newMemory,
      output: memoryShape,
      answers: { 200: ['application/json'], 201: ['application/json'] },
      async run(given, { self, user }) {
        await self.countWrite(user.did)
        return (await pages()).add(self, user.did, given)
      },
    },
    'DELETE /memory': {
      summary:
        'Erases everything that is remembered of the caller; `all=true` says that it is meant.',
      input: z.object({ all: z.string().optional() }),
      output: z.object({ erased: z.number().int() }),
      async run({ all }, { self, user }) {
        await self.countWrite(user.did)
        if (all !== 'true')
          throw new RuntimeError('BAD_REQUEST', 'This erases everything.', {
            hint: 'Say all=true.',
          })
        return {
          erased: await self.eraseAll(user.did, false),
        }
      },
    },
    'GET /memory/export': {
      summary: 'Everything that is remembered of the caller, with what held before.',
      output: exportShape,
      run: async (_, { self, user }) => (await pages()).exported(self, user.did),
    },
    'POST /memory/import': {
      summary: 'Takes an export in: what is known is confirmed, what is refused is counted.',
      input: importInput,
      output: z.object({
        added: z.number(),
        confirmed: z.number(),
        refused: z.record(z.string(), z.number()),
      }),
      async run(given, { self, user }) {
        await self.countWrite(user.did)
        return (await more()).importInto(self, user.did, given)
      },
    },
    'GET /memory/settings': {
      summary: 'How the caller lets the oracle remember.',
      output: settingsShape,
      async run(_, { self, user }) {
        const { mode, sensitive } = await self.settingsOf(user.did)
        return { mode, sensitive }
      },
    },
    'PUT /memory/settings': {
      summary: 'Chooses how the oracle remembers the caller. Nothing is erased by it.',
      input: settingsShape.partial(),
      output: settingsShape.extend({ kept: z.number().int() }),
      async run(chosen, { self, user }) {
        await self.countWrite(user.did)
        const { mode, sensitive } = await self.choose(user.did, chosen)
        return { mode, sensitive, kept: (await self.indexOf(user.did)).memories.length }
      },
    },
    'GET /memory/sessions/:id': {
      summary: 'Whether a session is kept out of memory, and what was noticed in it.',
      input: bySession,
      output: sessionShape,
      async run({ id }, { self, user, turns }) {
        const { demandSession, inSession } = await more()
        await demandSession(turns, user, id)
        return inSession(self, user.did, id)
      },
    },
    'PUT /memory/sessions/:id': {
      summary: 'Keeps a session out of memory, or lets it in again.',
      input: bySession.extend({ incognito: z.boolean() }),
      output: sessionShape,
      async run({ id, incognito }, { self, user, turns }) {
        const { demandSession, inSession } = await more()
        await self.countWrite(user.did)
        await demandSession(turns, user, id)
        await self.setIncognito(user.did, id, incognito)
        return inSession(self, user.did, id)
      },
    },
    'GET /memory/used': {
      summary: 'The memories that a run of the caller was shown, and what was noticed in it.',
      input: z.object({ run: z.string().min(1).max(200) }),
      output: usedShape,
      run: async ({ run }, { self, user }) => (await more()).usedIn(self, user.did, run),
    },
    'GET /memory/status': {
      summary: 'How many people and memories there are, and what was refused; no words.',
      auth: 'operator',
      output: statusShape,
      run: async (_, { self }) => (await more()).statusOf(self),
    },
    'GET /memory/:id': {
      summary: 'One memory, with every place where it was said.',
      input: byId,
      output: wholeShape,
      async run({ id }, { self, user, koa }) {
        const { whole, etag } = await (await pages()).show(self, user.did, id)
        koa.set('ETag', etag)
        return whole
      },
    },
    'PATCH /memory/:id': {
      summary:
        'Corrects a memory. If-Match refuses a change of something that was changed meanwhile.',
      input: byId.extend(changedMemory.shape),
      output: memoryShape,
      async run(given, { self, user, koa }) {
        await self.countWrite(user.did)
        const ifMatch = koa.get('If-Match') || undefined
        const { change } = await pages()
        const { memory, etag } = await change(self, user.did, { ...given, ifMatch })
        koa.set('ETag', etag)
        return memory
      },
    },
    'DELETE /memory/:id': {
      summary: 'Erases a memory for good, with what it had replaced.',
      input: byId,
      output: z.object({
        message: z.string(),
        erased: z.number().int(),
        sessions: z.array(z.object({ sessionId: z.string(), delete: z.string() })),
      }),
      async run({ id }, { self, user }) {
        await self.countWrite(user.did)
        return (await pages()).erase(self, user.did, id)
      },
    },
  },
})

const readByRules =
  'rules of the demonstration model read what is said; about 85 forms of sentences in English, Swahili and French are understood'

/** Whether a model is the one that stands in where no provider is set: rules read the sessions then. */
const isDemonstration = (id: string): boolean => id === 'demo' || id.startsWith('demo:')
