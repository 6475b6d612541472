import { beforeAll, expect, it, onTestFinished } from 'vitest'
import { definePlugin, type Database, type Turns } from '#core'
import { scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import calls from '../../plugins/calls/index.ts'
import { withCallsTables } from '../../plugins/calls/tables.ts'
import playground from '../../plugins/playground/index.ts'
import { beeps } from '../support/calling-voice.ts'
import { CallingPage, quantile, wavOfSpeech } from './calling/calling-page.ts'
import { describeWithCaller } from './calling/with-caller.ts'
import { everythingIn } from './calling/everything-in.ts'
import { plannedDatabase } from '../support/database.ts'
import { urlOf } from '../support/services.ts'
import { UdpForwarder } from '../support/udp-forwarder.ts'

const patient = { timeout: 90_000, interval: 50 }
const asked = 'Please wait, I would like to know something else about fish.'
/** Answers in which every word occurs once: of which turn it is, and its number. */
const wordsOf = (turn: number) => Array.from({ length: 150 }, (_, i) => `t${turn}w${i}x`)
const answerOf = (turn: number) =>
  wordsOf(turn)
    .map((word, i) => (i % 6 === 5 ? `${word}.` : word))
    .join(' ')
    .replace(/\. t/g, '. T')
const countOf = (text: string) => text.split(/\s+/).filter(Boolean).length

/** An oracle whose words are beeps without silence between them, which hears every utterance as the same words. */
async function oracle(steps: readonly ScriptedStep[], databaseUrl?: string) {
  const inside: { db?: Database; turns?: Turns } = {}
  const insider = definePlugin({
    name: 'insider',
    summary: 'Reads every table, and starts turns as another page does.',
    visibility: 'silent',
    setup: ({ db, turns }) => void Object.assign(inside, { db, turns }),
  })
  const model = scriptedModel(steps)
  const app = await testApp({
    plugins: [playground, calls, insider],
    model,
    env: {
      NODE_ENV: 'development',
      CALLS_VOICE: 'command',
      CALLS_VOICE_COMMAND: beeps('--soft'),
      CALLS_HEARING: 'command',
      CALLS_HEARING_COMMAND: JSON.stringify(['sh', '-c', `cat > /dev/null; echo "${asked}"`]),
      ...(databaseUrl !== undefined && { DATABASE_URL: databaseUrl }),
    },
  })
  onTestFinished(() => app.close())
  return { app, model, db: inside.db!, turns: inside.turns! }
}

/** The one call of an oracle: whose it is, and of which session. */
async function callOf(db: Database) {
  const rows = await withCallsTables(db)
    .selectFrom('calls_calls')
    .select(['did', 'session_id as sessionId'])
    .execute()
  return rows[0]!
}

await describeWithCaller('who speaks over the agent on a page', (browser) => {
  let speech: string

  beforeAll(async () => {
    speech = await wavOfSpeech(asked)
  }, 240_000)

  /** Speaks over the agent once it was heard for some words. Answers how long the page was not silent, and the words that it heard. */
  async function interrupt(caller: CallingPage, from: number) {
    await caller.hears(4, from)
    const began = await caller.play(speech)
    const silentAt = await caller.silentFrom(began, 0.5)
    const words = (await caller.words(from)).filter(({ at }) => at <= silentAt)
    return { ms: Math.round((silentAt - began) * 1_000), words: words.length, silentAt }
  }

  /** Looks in all places for what nobody heard of these answers. */
  async function expectNowhere(
    places: Readonly<Record<string, string>>,
    heard: readonly { readonly turn: number; readonly words: number }[],
  ) {
    for (const [place, text] of Object.entries(places))
      for (const { turn, words } of heard) {
        expect(text, place).toMatch(new RegExp(`${wordsOf(turn)[0]}`, 'i'))
        for (const unheard of wordsOf(turn).slice(words + 2))
          expect(text.toLowerCase(), place).not.toContain(unheard)
      }
  }

  it('on a page that plays what came long before, too, the answer ends at a word that was heard', async () => {
    const { app, db } = await oracle([answerOf(0), 'Good.'])
    await using network = new UdpForwarder()
    const caller = await CallingPage.open(browser(), app.url, (context) =>
      context.route('**/calls', async (route) => {
        if (route.request().method() !== 'POST') return route.fallback()
        const response = await route.fetch()
        const body = await response.json()
        await route.fulfill({ response, json: { ...body, sdp: await network.behind(body.sdp) } })
      }),
    )
    onTestFinished(() => caller.close())
    await caller.call()
    // A network that delivers in bursts teaches the page to wait with what it plays.
    network.burstMs = 1_400
    const from = await caller.now()
    await caller.type('Tell me everything.')
    await caller.hears(30, from)
    network.burstMs = 0
    const { words, ms } = await interrupt(caller, from)
    await caller.page.getByRole('log', { name: 'Captions' }).getByText('Good.').waitFor()
    const { sessionId } = await callOf(db)
    const answer = await fetch(`${app.url}/messages/${sessionId}`, { headers: caller.headers })
    const { messages } = (await answer.json()) as { messages: Record<string, any>[] }
    const kept = countOf(messages[1]?.content)
    console.log(`After bursts: silent after ${ms} ms, ${words} words heard, ${kept} kept`)
    expect(messages[1]).toMatchObject({ type: 'ai', cut: true })
    expect(Math.abs(kept - words)).toBeLessThanOrEqual(2)
  }, 200_000)

  it('a run that another replica carries is spoken here, and ends where it was heard', async () => {
    const url = await urlOf('postgres')
    if (url === undefined) {
      if (process.env.REQUIRE_ALL) throw new Error('PostgreSQL is not there.')
      return console.log('skipped: PostgreSQL is not there.')
    }
    const database = plannedDatabase(url)
    await database.create()
    onTestFinished(() => database.drop())
    // The other one still hears its model when somebody speaks over the answer.
    const there = await oracle([{ text: [answerOf(0), ' More.'], paceMs: 60_000 }], database.url)
    const { app, model, db } = await oracle(['Good.'], database.url)
    const caller = await CallingPage.open(browser(), app.url)
    onTestFinished(() => caller.close())
    await caller.call()
    const { did, sessionId } = await callOf(db)
    const turn = there.turns.start({ user: { did }, session: sessionId, message: 'Tell me all.' })
    turn.ended.catch(() => undefined)
    await turn.begun
    const { ms, words } = await interrupt(caller, 0)
    await caller.page.getByRole('log', { name: 'Captions' }).getByText('Good.').waitFor()
    console.log(`At another replica: silent after ${ms} ms`)
    expect(there.model.requests).toHaveLength(1)
    const answer = await fetch(`${app.url}/messages/${sessionId}`, { headers: caller.headers })
    const { messages } = (await answer.json()) as { messages: Record<string, any>[] }
    expect(messages[1]).toMatchObject({ type: 'ai', cut: true })
    expect(Math.abs(countOf(messages[1]?.content) - words)).toBeLessThanOrEqual(2)
    const next = JSON.stringify(model.requests[0]?.messages)
    expect(next).toContain(`${messages[1]?.content} [interrupted here by the user]`)
    await expectNowhere({ next, tables: await everythingIn(db) }, [{ turn: 0, words }])
  }, 200_000)

  it.each([
    ['SQLite', 10],
    ['PostgreSQL', 3],
  ])(
    'on %s: %i times the page falls silent, and the answer ends at a word that was heard',
    async (kind, times) => {
      const url = kind === 'PostgreSQL' ? await urlOf('postgres') : undefined
      if (kind === 'PostgreSQL' && url === undefined) {
        if (process.env.REQUIRE_ALL) throw new Error('PostgreSQL is not there.')
        return console.log('skipped: PostgreSQL is not there.')
      }
      const database = url === undefined ? undefined : plannedDatabase(url)
      await database?.create()
      onTestFinished(() => database?.drop())
      const steps = Array.from({ length: times }, (_, turn) => answerOf(turn))
      const { app, model, db } = await oracle([...steps, 'Good.'], database?.url)
      const caller = await CallingPage.open(browser(), app.url)
      onTestFinished(() => caller.close())
      await caller.call()
      await caller.type('Tell me everything.')
      const heard: { turn: number; ms: number; words: number }[] = []
      let from = 0
      for (let turn = 0; turn < times; turn++) {
        const one = await interrupt(caller, from)
        heard.push({ turn, ...one })
        from = one.silentAt
      }
      await caller.page.getByRole('log', { name: 'Captions' }).getByText('Good.').waitFor()
      await caller.page.getByText('Listening.').waitFor()
      const took = heard.map(({ ms }) => ms)
      console.log(
        `${kind}: silent after ${took.join(', ')} ms: median ${quantile(took, 0.5)}, p90 ${quantile(took, 0.9)}`,
      )
      expect(quantile(took, 0.5)).toBeLessThan(600)

      const get = async (path: string) =>
        (await fetch(app.url + path, { headers: caller.headers })).text()
      const { sessionId } = await callOf(db)
      const { messages } = JSON.parse(await get(`/messages/${sessionId}`)) as {
        messages: Record<string, any>[]
      }
      const replies = messages.filter(({ type }) => type === 'ai')
      const questions = messages.filter(({ type }) => type === 'human')
      expect(replies).toHaveLength(times + 1)
      for (const { turn, words } of heard) {
        const { content, cut } = replies[turn]!
        expect(cut).toBe(true)
        expect(answerOf(turn).startsWith(content)).toBe(true)
        expect(
          Math.abs(countOf(content) - words),
          `${content} and ${words} words`,
        ).toBeLessThanOrEqual(2)
        const next = JSON.stringify(model.requests[turn + 1]?.messages)
        expect(next).toContain(`${content} [interrupted here by the user]`)
        expect(next).toContain(asked)
        await expectNowhere({ next }, heard.slice(0, turn + 1))
        const replay = await get(`/runs/${questions[turn]!.run.runId}`)
        await expectNowhere({ replay }, [heard[turn]!])
      }
      await expectNowhere(
        { tables: await everythingIn(db), history: JSON.stringify(messages) },
        heard,
      )
      expect(app.log.join('\n')).not.toContain('t0w')
    },
    400_000,
  )
})
