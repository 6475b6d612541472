import { sql, type Kysely } from 'kysely'
import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'

const sent: string[] = []

const post = definePlugin({
  name: 'post',
  summary: 'Letters.',
  visibility: 'on-demand',
  state: { letters: z.array(z.string()).default([]) },
  tools: {
    send: {
      description: 'Sends a letter.',
      input: z.object({ to: z.string(), pin: z.string().optional() }),
      redact: ['pin'],
      run: ({ to }, ctx) => {
        sent.push(to)
        ctx.state.letters = [...(ctx.state.letters as string[]), to]
        return `sent to ${to}`
      },
    },
    ask: {
      description: 'Sends a letter once a person agrees.',
      approve: true,
      input: z.object({ to: z.string(), pages: z.number().int().max(9) }),
      run: ({ to, pages }) => `asked ${to} ${pages}`,
    },
  },
})

/** Hands the database to a test that needs a conversation which nobody has the patience to have. */
let database: Kysely<any> // any: the tables of the kernel, which no plugin knows
const probe = definePlugin({
  name: 'probe',
  summary: 'Hands over the database.',
  setup: ({ db }) => void (database = db as Kysely<any>), // any: see above
})

/** What the model was asked, newest last. */
interface Asked {
  readonly messages: readonly { readonly role: string; readonly content: string }[]
  readonly tools: readonly { readonly name: string }[]
}

await onEachDatabase('a conversation that branches off', ({ databaseUrl }) => {
  async function start(script: readonly ScriptedStep[]) {
    sent.length = 0
    const model = scriptedModel(script, { id: 'scripted/one' })
    const app = await testApp({
      plugins: [post, probe],
      ...(databaseUrl && { database: 'postgres' as const }),
      model,
      env: { OPERATOR_TOKEN: 'mnopqrstuvwx', NODE_ENV: 'development' },
    })
    onTestFinished(() => app.close())
    const user = await app.user('somebody')
    const asked = () => model.requests as unknown as Asked[]
    return { app, user, asked }
  }

  const load = call('load_capability', { names: ['post'] })

  it('has the messages, the plugins and the state of its place, and leaves the first as it was', async () => {
    const { user, asked } = await start([
      load,
      call('send', { to: 'Ada', pin: '77' }),
      'Ada has it.',
      call('send', { to: 'Ben' }),
      'Ben has it.',
      'In the branch.',
    ])
    const { sessionId } = await user.say('Write to Ada.')
    await user.say('Write to Ben.', { sessionId })
    const before = (await user.get(`/messages/${sessionId}`)).body
    const second = before.messages.find((m: any) => m.content === 'Write to Ben.')
    const made = await user.post(`/sessions/${sessionId}/fork`, { before: second.id, branch: true })
    expect(made.status).toBe(201)
    expect(made.body).toMatchObject({
      forkedFrom: { sessionId, before: second.id, at: expect.any(String) },
      already: [{ toolName: 'send', args: { to: 'Ben' }, outcome: 'done' }],
    })
    const branch = made.body.sessionId as string
    const copied = (await user.get(`/messages/${branch}`)).body.messages
    expect(copied.map((m: any) => [m.id, m.content])).toEqual(
      before.messages.slice(0, before.messages.indexOf(second)).map((m: any) => [m.id, m.content]),
    )
    const state = async (id: string) => (await user.get(`/sessions/${id}/state`)).body
    expect(await state(branch)).toEqual({
      loadedPlugins: ['post'],
      state: { post: { letters: ['Ada'] } },
    })
    expect((await state(sessionId)).state).toEqual({ post: { letters: ['Ada', 'Ben'] } })
    await user.say('Write to Cy.', { sessionId: branch })
    const last = asked().at(-1)
    const words = JSON.stringify(last?.messages)
    expect(words).toContain('[Already carried out in another branch: send({')
    expect(words).toContain('Do not repeat it unasked.]')
    expect(last?.tools.map(({ name }) => name)).toContain('send')
    expect(sent).toEqual(['Ada', 'Ben'])
    expect((await user.get(`/messages/${sessionId}`)).body).toEqual(before)
    const family = (await user.get(`/sessions/${branch}/branches`)).body
    expect(family).toMatchObject({
      root: sessionId,
      branches: [{ sessionId }, { sessionId: branch, forkedFrom: { sessionId } }],
    })
    const all = (await user.get('/sessions')).body
    const newest = (await user.get('/sessions?branches=newest')).body
    expect([all.total, newest.total, newest.sessions[0].sessionId]).toEqual([2, 1, branch])
    await user.delete(`/sessions/${sessionId}`)
    expect((await user.get(`/messages/${branch}`)).body.messages).toHaveLength(copied.length + 2)
    expect((await user.get(`/sessions/${branch}/branches`)).body.branches).toHaveLength(1)
  })

  it('can leave at a step of a run, also of one that waits, with what was kept then', async () => {
    const { user } = await start([
      load,
      call('send', { to: 'Ada', pin: '77' }),
      call('ask', { to: 'Ben', pages: 2 }),
      'Asked.',
    ])
    const said = await user.say('Write to Ada, then ask Ben.', { approvals: true })
    expect(said.status).toBe('waiting')
    const { sessionId } = said
    const { runs } = (await user.get(`/sessions/${sessionId}/runs`)).body
    const { runId } = runs[0]
    const { steps } = (await user.get(`/runs/${runId}/trace`)).body
    const at = (kind: string, nth = 0) => steps.filter((s: any) => s.kind === kind)[nth].step
    const fork = async (step: number) => {
      const { status, body } = await user.post(`/sessions/${sessionId}/fork`, { run: runId, step })
      const { messages } = (await user.get(`/messages/${body.sessionId}`)).body
      const state = (await user.get(`/sessions/${body.sessionId}/state`)).body
      return { status, body, messages, state }
    }
    const early = await fork(at('model', 1))
    expect(early.status).toBe(201)
    expect(early.state).toEqual({ loadedPlugins: ['post'], state: {} })
    expect(early.body.already).toMatchObject([
      { toolName: 'send', args: { to: 'Ada', pin: '[redacted]' } },
    ])
    expect(early.messages.at(-1).toolCalls).toMatchObject([
      { name: 'send', status: 'error', output: 'This call was not carried out in this branch.' },
    ])
    const late = await fork(at('model', 2))
    expect(late.state.state).toEqual({ post: { letters: ['Ada'] } })
    expect(late.body.already).toEqual([])
    expect(late.messages.at(-1)).toMatchObject({
      isComplete: true,
      toolCalls: [{ name: 'ask', status: 'error' }],
    })
    const trace = (await user.get(`/sessions/${late.body.sessionId}/runs`)).body.runs
    expect((await user.get(`/runs/${trace[0].runId}/trace`)).status).toBe(200)
    const waiting = (await user.get(`/sessions/${sessionId}/run`)).body
    expect(waiting).toMatchObject({ waiting: { runId } })
    const { messages } = (await user.get(`/messages/${sessionId}`)).body
    expect(messages.at(-1).toolCalls).toMatchObject([
      { name: 'ask', status: 'isRunning', waits: true },
    ])
    for (const step of [999, -1, 1.5]) {
      const { status } = await user.post(`/sessions/${sessionId}/fork`, { run: runId, step })
      expect([step, status]).toEqual([step, step === 999 ? 404 : 400])
    }
  })

  it('refuses what names no place, more than one, or one of another conversation', async () => {
    const { app, user } = await start(['One.', 'Two.'])
    const { sessionId } = await user.say('First.')
    const path = `/sessions/${sessionId}/fork`
    const { messages } = (await user.get(`/messages/${sessionId}`)).body
    const [first] = messages
    const runId = first.run.runId
    const other = await app.user('another')
    const theirs = await other.say('Hello.')
    for (const [body, status, code] of [
      [{}, 400, 'INVALID_INPUT'],
      [{ before: first.id, after: first.id }, 400, 'INVALID_INPUT'],
      [{ before: first.id, run: runId, step: 0 }, 400, 'INVALID_INPUT'],
      [{ run: runId }, 400, 'INVALID_INPUT'],
      [{ before: 'nothing' }, 404, 'NOT_FOUND'],
      [{ before: '%' }, 404, 'NOT_FOUND'],
      [{ run: 'nothing', step: 0 }, 404, 'NOT_FOUND'],
    ] as const) {
      const answer = await user.post(path, body)
      expect([body, answer.status, answer.body.code]).toEqual([body, status, code])
    }
    expect((await other.post(path, { before: first.id })).status).toBe(404)
    const otherRun = theirs.runId
    expect((await user.post(path, { run: otherRun, step: 1 })).status).toBe(404)
    const empty = await user.post(path, { before: first.id })
    expect((await user.get(`/messages/${empty.body.sessionId}`)).body.messages).toEqual([])
    const blank = await user.post(path, { after: messages.at(-1).id, title: '\u202e ' })
    expect(blank.body.code).toBe('INVALID_INPUT')
    const title = 'x'.repeat(200)
    const whole = await user.post(path, { after: messages.at(-1).id, title })
    expect(whole.body.title).toBe(title)
    expect((await user.get(`/messages/${whole.body.sessionId}`)).body.messages).toHaveLength(2)
    const before = (await user.get('/sessions')).body.total
    const many = await Promise.all(
      Array.from({ length: 20 }, () => user.post(path, { before: first.id, branch: true })),
    )
    expect(new Set(many.map(({ status }) => status))).toEqual(new Set([201]))
    expect((await user.get('/sessions')).body.total).toBe(before + 20)
    // A conversation that is gone cannot be forked; what was forked from it stays.
    expect((await user.delete(`/sessions/${sessionId}`)).status).toBe(200)
    expect((await user.post(path, { before: first.id })).status).toBe(404)
    const kept = (await user.get(`/messages/${whole.body.sessionId}`)).body.messages
    expect(kept).toHaveLength(2)
    expect(
      (await user.post(`/sessions/${whole.body.sessionId}/fork`, { after: kept[1].id })).status,
    ).toBe(201)
  })

  it('takes as many branches as it may have, and says so to the next', async () => {
    const { user } = await start(['One.'])
    const { sessionId } = await user.say('First.')
    const first = (await user.get(`/messages/${sessionId}`)).body.messages[0].id
    const fork = () => user.post(`/sessions/${sessionId}/fork`, { before: first, branch: true })
    for (let nth = 0; nth < 100; nth++) expect((await fork()).status).toBe(201)
    const refused = await fork()
    expect([refused.status, refused.body.code]).toEqual([409, 'BRANCHES_FULL'])
    expect((await user.get('/sessions?limit=100')).body.total).toBe(101)
  })

  it('copies 20,000 steps, and says so of one more', async () => {
    const { user } = await start(['One.'])
    const { sessionId } = await user.say('The first words.')
    const { messages } = (await user.get(`/sessions/${sessionId}/messages`)).body
    const fork = () => user.post(`/sessions/${sessionId}/fork`, { after: messages.at(-1).id })
    /** Puts steps before the first one until there are so many. */
    const fill = (count: number) =>
      sql`with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < ${sql.lit(count)})
        insert into kernel_steps (session_id, position, run_id, root_id, step, kind, body, created_at)
        select s.session_id, s.position - numbers.n, s.run_id, s.root_id, s.step, s.kind, s.body, s.created_at
        from numbers, (select * from kernel_steps where session_id = ${sessionId} order by position limit 1) s`.execute(
        database,
      )
    const { rows } = await sql<{ n: number }>`select count(*) as n from kernel_steps
      where session_id = ${sessionId}`.execute(database)
    await fill(20_000 - Number(rows[0]?.n))
    expect((await fork()).status).toBe(201)
    await fill(1)
    const refused = await fork()
    expect([refused.status, refused.body.code]).toEqual([413, 'FORK_TOO_LARGE'])
  })

  it('is renamed, pinned and put away, and listed by pages that end', async () => {
    const { app, user } = await start(['One.', 'Two.', 'Three.'])
    const { sessionId } = await user.say('The first words.')
    const path = `/sessions/${sessionId}`
    const rename = async (title: unknown) => {
      const { status, body } = await user.patch(path, { title })
      return status === 200 ? body.title : body.code
    }
    expect(await rename('  Rain\nin \u202eLusaka\u0007  ')).toBe('Rain in Lusaka')
    expect(await rename('x'.repeat(200))).toBe('x'.repeat(200))
    for (const title of ['', '   ', 'x'.repeat(201), 7])
      expect(await rename(title)).toBe('INVALID_INPUT')
    expect(await rename('a\u0000b')).toBe('UNSAFE_TEXT')
    expect(await rename(null)).toBe('The first words.')
    expect((await (await app.user('another')).patch(path, { title: 'Mine' })).status).toBe(404)
    const ids = [sessionId]
    for (let nth = 0; nth < 4; nth++) ids.push((await user.post('/sessions', {})).body.sessionId)
    await user.patch(path, { pinned: true })
    const seen: string[] = []
    let next = ''
    do {
      const page = (await user.get(`/sessions?limit=2${next}`)).body
      seen.push(...page.sessions.map((s: any) => s.sessionId))
      next = page.nextCursor === null ? '' : `&cursor=${page.nextCursor}`
      if (seen.length === 2)
        expect((await user.get(`/sessions?archived=true${next}`)).status).toBe(400)
    } while (next !== '')
    expect(seen[0]).toBe(sessionId)
    expect([...seen].sort()).toEqual([...ids].sort())
    await user.patch(path, { archived: true, pinned: false })
    expect((await user.get('/sessions')).body.total).toBe(4)
    expect((await user.get('/sessions?archived=true')).body.sessions).toMatchObject([
      { sessionId, archived: true },
    ])
    for (const cursor of ['x', 'W10', '%00'])
      expect((await user.get(`/sessions?cursor=${cursor}`)).status).toBe(400)
  })

  it('keeps an approval open whose edited arguments do not fit, and says where', async () => {
    const { user } = await start([load, call('ask', { to: 'Ben', pages: 2 }), 'Asked.'])
    const said = await user.say('Ask Ben.', { approvals: true })
    expect(said.status).toBe('waiting')
    const { runId, sessionId } = said
    const resume = (args: unknown) => user.post(`/runs/${runId}/resume`, { decision: 'edit', args })
    const wrong = await resume({ to: 'Ben', pages: 12 })
    expect(wrong.status).toBe(400)
    expect(wrong.body).toMatchObject({ code: 'INVALID_INPUT', details: [{ path: 'args.pages' }] })
    expect((await user.get(`/sessions/${sessionId}/run`)).body.waiting).toEqual({ runId })
    expect((await resume({ to: 'Ben', pages: 3 })).status).toBe(200)
    const { messages } = (await user.get(`/messages/${sessionId}`)).body
    const calls = messages.flatMap((m: any) => m.toolCalls ?? [])
    expect(calls.at(-1).output).toContain('asked Ben 3')
  })

  it('says what plugins cost a call with their tools, and what all of them would', async () => {
    const { user } = await start(['Hi.'])
    const { now, all, plugins } = (await user.get('/capabilities')).body
    const [listed] = plugins.filter(({ name }: any) => name === 'post')
    expect(listed.toolBytes).toBeGreaterThan(150)
    expect(all - now).toBeGreaterThan(listed.toolBytes * 0.9)
  })
})
