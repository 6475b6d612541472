import { setTimeout as pause } from 'node:timers/promises'
import type { Page } from 'playwright-core'
import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, type Model, type PluginSessions, type Turns } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep, type TestUser } from '#core/testing'
import playground from '../../plugins/playground/index.ts'
import { builtPage } from '../support/built-page.ts'
import { complaintsOf, launch } from '../support/browser.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { HeldUp } from '../support/held-up.ts'
import { describeWith } from '../support/services.ts'

/** How far a figure of the trace may be from the stopwatch, beside what other processes held this one up between the two. */
const nearMs = 20
/**
 * How many turns are taken at most. On a machine under load the database is slow between the stopwatch and the server's own
 * look at the clock, so each figure has to be near in one of these turns; a figure that is wrong is wrong in all.
 */
const mostWalks = 12

/** What the model and the tools themselves saw of the time. */
interface Watched {
  readonly name: string
  readonly at: number
  readonly ms: number
}

/** A stopwatch in the hands of the model and the tools of one turn. */
class Stopwatch {
  readonly seen: Watched[] = []

  async *around<T>(name: string, work: AsyncIterable<T>): AsyncGenerator<T> {
    const [at, began] = [Date.now(), performance.now()]
    yield* work
    this.seen.push({ name, at, ms: performance.now() - began })
  }

  async of<T>(name: string, work: () => Promise<T>): Promise<T> {
    const [at, began] = [Date.now(), performance.now()]
    const value = await work()
    this.seen.push({ name, at, ms: performance.now() - began })
    return value
  }

  /** The figures of a name, in the order in which they began. */
  all(name: string): Watched[] {
    return this.seen.filter((one) => one.name === name).sort((a, b) => a.at - b.at)
  }
}

/** A model whose every answer is timed. */
function timedModel(watch: Stopwatch, script: readonly ScriptedStep[]): Model {
  const model = scriptedModel(script, { id: 'scripted/one' })
  return { ...model, stream: (request) => watch.around('model', model.stream(request)) }
}

/** Tools that take their time; `hold` never ends in a process that is about to die. */
const shopOf = (watch: Stopwatch, held?: () => void) =>
  definePlugin({
    name: 'shop',
    summary: 'Tools of every kind.',
    visibility: 'always',
    tools: {
      slow: {
        description: 'Takes its time.',
        effect: 'read',
        foreign: false,
        input: z.object({ ms: z.number() }),
        run: ({ ms }) => watch.of(`slow ${ms}`, () => pause(ms, `took ${ms}`)),
      },
      hold: {
        description: 'Holds on.',
        effect: 'read',
        foreign: false,
        input: z.object({}),
        run(_, { signal }) {
          if (!held) return watch.of('hold', () => pause(50, 'held'))
          held()
          return new Promise((resolve) => signal.addEventListener('abort', () => resolve('cut')))
        },
      },
      buy: {
        description: 'Buys.',
        approve: true,
        input: z.object({ what: z.string() }),
        run: ({ what }) => watch.of('buy', () => pause(40, `bought ${what}`)),
      },
    },
    subAgents: { clerk: { description: 'Looks up.', prompt: 'You look up.', tools: ['slow'] } },
  })

const before: ScriptedStep[] = [
  { delayMs: 60, calls: [call('slow', { ms: 120 }), call('slow', { ms: 40 })] },
  call('call_clerk', { task: 'Look it up.' }),
  { delayMs: 30, calls: [call('slow', { ms: 70 })] },
  { delayMs: 20, text: 'It is there.' },
  call('hold', {}),
]
const after: ScriptedStep[] = [
  { delayMs: 30, calls: [call('buy', { what: 'tea' })] },
  { delayMs: 25, text: 'Done.' },
]

interface Step {
  readonly kind: string
  readonly at: number
  readonly ms: number
  readonly within?: string
  readonly tool?: string
  readonly toolCallId?: string
  readonly output?: string
  readonly decision?: string
  readonly replica?: string
}

interface Trace {
  readonly status: string
  readonly steps: readonly Step[]
}

const traceOf = async (user: TestUser, runId: string): Promise<Trace> =>
  (await user.get(`/runs/${runId}/trace`)).body as Trace

const runsOf = async (user: TestUser, sessionId: string) =>
  (
    (await user.get(`/sessions/${sessionId}/runs`)).body as {
      runs: { runId: string; status: string }[]
    }
  ).runs

type Time = readonly [from: number, to: number]

/** By how much a stopwatch and a trace differ of one thing, in milliseconds, in the best of the turns. */
class Differences {
  readonly #all = new Map<string, number>()
  readonly #heldUp: HeldUp

  constructor(heldUp: HeldUp) {
    this.#heldUp = heldUp
  }

  /** Compares what was told and what was seen of times in which the machine may have held the process up. */
  compare(name: string, told: number, seen: number, ...times: readonly Time[]): void {
    const heldUp = times.reduce((ms, [from, to]) => ms + this.#heldUp.ms(from, to), 0)
    const difference = Math.max(0, Math.abs(told - seen) - heldUp)
    this.#all.set(name, Math.min(difference, this.#all.get(name) ?? Infinity))
  }

  get size(): number {
    return this.#all.size
  }

  /** Those that were not near in any turn. */
  get far(): [string, number][] {
    return [...this.#all].filter(([, ms]) => ms > nearMs)
  }
}

/** From the earlier beginning to the later end of what was told and seen of one thing. */
const spanned = (...all: readonly { readonly at: number; readonly ms: number }[]): Time => [
  Math.min(...all.map(({ at }) => at)) - nearMs,
  Math.max(...all.map(({ at, ms }) => at + ms)) + nearMs,
]

/** Holds the trace of a whole turn against the stopwatch. */
function compareAll(differences: Differences, { steps }: Trace, watch: Stopwatch): void {
  const models = steps.filter(({ kind }) => kind === 'model').sort((a, b) => a.at - b.at)
  const tools = steps.filter(({ kind }) => kind === 'tool')
  const pairs: [string, Step, Watched][] = []
  for (const [nth, seen] of watch.all('model').entries())
    pairs.push([`model ${nth}`, models[nth]!, seen])
  for (const name of ['slow 120', 'slow 40', 'slow 70', 'hold', 'buy']) {
    const [tool, ms] = name.split(' ')
    const told = tools.find((step) => step.tool === tool && (!ms || step.output === `took ${ms}`))
    pairs.push([name, told!, watch.all(name)[0]!])
  }
  for (const [name, told, seen] of pairs) {
    // The server's own time is around that of the model or the tool; both round.
    expect(told.ms, name).toBeGreaterThan(seen.ms - 1)
    const time = spanned(told, seen)
    differences.compare(`${name} took`, told.ms, seen.ms, time)
    differences.compare(`${name} began`, told.at, seen.at, time)
  }
  const sum = (all: readonly { readonly ms: number }[]) => all.reduce((ms, one) => ms + one.ms, 0)
  const [toldAll, seenAll] = [pairs.map(([, told]) => told), pairs.map(([, , seen]) => seen)]
  // A trace has whole milliseconds: each step may have gained one by that.
  const least = sum(toldAll) - pairs.length
  const times = pairs.map(([, told, seen]) => spanned(told, seen))
  differences.compare('all together', Math.max(least, sum(seenAll)), sum(seenAll), ...times)
  const clerk = tools.find(({ tool }) => tool === 'call_clerk')!
  const inside = steps.filter(({ within, kind }) => within === clerk.toolCallId && kind !== 'state')
  expect(inside.map(({ kind }) => kind)).toEqual(['model', 'tool', 'model'])
  differences.compare('the clerk', clerk.ms, sum(inside), spanned(clerk))
}

/** A turn with parallel tools, a sub-agent, a takeover and an approval, and its trace in three processes. */
async function walk(differences: Differences, databaseUrl?: string): Promise<Trace> {
  const watch = new Stopwatch()
  const held = Promise.withResolvers<void>()
  const first = await testApp({
    plugins: [shopOf(watch, held.resolve)],
    ...(databaseUrl && { database: 'postgres' as const }),
    model: timedModel(watch, before),
    env: { RUN_LEASE_MS: '300' },
  })
  try {
    const user = await first.user('somebody')
    const { sessionId } = (await user.post('/sessions', {})).body as { sessionId: string }
    void user.say('Do it.', { sessionId, approvals: true }).catch(() => undefined)
    await held.promise
    const kept = async () => {
      const [run] = await runsOf(user, sessionId)
      const { steps } = await traceOf(user, run!.runId)
      return steps.filter(({ kind }) => kind === 'model').length
    }
    await expect.poll(kept, { timeout: 60_000 }).toBe(before.length)
    await first.crash()
    const second = await first.again({
      plugins: [shopOf(watch)],
      model: timedModel(watch, after),
    })
    const back = await second.user('somebody')
    await expect
      .poll(async () => (await runsOf(back, sessionId))[0]?.status, { timeout: 60_000 })
      .toBe('waiting')
    const [waiting] = await runsOf(back, sessionId)
    const asked = Date.now()
    const answer = await back.post(`/runs/${waiting!.runId}/resume`, { decision: 'approve' })
    expect(answer.status).toBe(200)
    await expect
      .poll(async () => (await runsOf(back, sessionId))[0]?.status, { timeout: 60_000 })
      .toBe('finished')
    const [ended] = await runsOf(back, sessionId)
    const trace = await traceOf(back, ended!.runId)
    compareAll(differences, trace, watch)
    const takeover = trace.steps.find(({ kind }) => kind === 'takeover')!
    const models = trace.steps.filter(({ kind, within }) => kind === 'model' && !within)
    expect(takeover.replica).toBe(models.at(-1)!.replica)
    expect(takeover.replica).not.toBe(models[0]!.replica)
    const decision = trace.steps.find((step) => step.decision === 'approve')!
    const decided = decision.at + decision.ms
    // The person had been asked to answer, and what was approved had not begun: however slow the machine is between the two.
    const [{ at: done }] = watch.all('buy') as [Watched]
    const answered = Math.min(Math.max(decided, asked), done)
    differences.compare('the answer of a person', decided, answered)
    const third = await second.again()
    expect(await traceOf(await third.user('somebody'), ended!.runId)).toEqual(trace)
    return trace
  } finally {
    await first.close()
  }
}

await onEachDatabase('the times of a trace', ({ databaseUrl }) => {
  it('are what a stopwatch in the model and the tools saw, through a sub-agent, a takeover and an approval', async () => {
    using heldUp = new HeldUp()
    const differences = new Differences(heldUp)
    for (let walks = 0; walks === 0 || (differences.far.length > 0 && walks < mostWalks); walks++)
      await walk(differences, databaseUrl)
    expect(differences.far).toEqual([])
    expect(differences.size).toBe(2 * 12 + 3)
  }, 240_000)
})

/** Expects that each line of the page stands on the axis of time where its step has it, and says so in figures. */
async function expectDrawn(page: Page, steps: readonly Step[]): Promise<void> {
  const lines = page.getByRole('list', { name: 'Steps' }).locator('[data-step]')
  await expect.poll(() => lines.count()).toBe(steps.length)
  const begin = Math.min(...steps.map(({ at }) => at))
  const length = Math.max(...steps.map(({ at, ms }) => at + ms)) - begin
  for (const [nth, step] of steps.entries()) {
    const line = lines.nth(nth)
    const figures = (await line.locator('.figure').textContent()) ?? ''
    const shown = figures.match(/\d+(?= ms)/g)!.map(Number)
    const started = shown[step.ms === 0 ? 0 : 1]!
    expect(Math.abs(started - (step.at - begin))).toBeLessThanOrEqual(1)
    if (step.ms > 0) expect(Math.abs(shown[0]! - step.ms)).toBeLessThanOrEqual(1)
    const [track, bar] = await Promise.all([
      line.locator('.track').boundingBox(),
      line.locator('.bar').boundingBox(),
    ])
    // One axis of time: the bar begins where its step began, and is as long as the step took.
    const perMs = track!.width / length
    expect(Math.abs(bar!.x - track!.x - (step.at - begin) * perMs)).toBeLessThan(2)
    expect(Math.abs(bar!.width - Math.max(2, step.ms * perMs))).toBeLessThan(2)
  }
}

await describeWith('chromium', 'the playground draws a trace', (program) => {
  it('with each step where the trace has it, and shows another run when it is chosen', async () => {
    await builtPage()
    const opened: { turns?: Turns; sessions?: PluginSessions } = {}
    const helper = definePlugin({
      name: 'helper',
      summary: 'Begins turns.',
      uses: [playground],
      setup({ turns, sessions }) {
        Object.assign(opened, { turns, sessions })
        return undefined
      },
    })
    const watch = new Stopwatch()
    const app = await testApp({
      plugins: [playground, helper, shopOf(watch)],
      model: timedModel(watch, [...before.slice(0, 4), 'It is all there.', 'Good day.']),
      env: { NODE_ENV: 'development' },
    })
    onTestFinished(() => app.close())
    const browser = await launch(program)
    onTestFinished(() => browser.close())
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } })
    const complaints = complaintsOf(page)
    const granting = page.waitForRequest(`${app.url}/grants`)
    await page.goto(`${app.url}/playground/#/chat`)
    const user = z.object({ did: z.string() }).parse((await granting).postDataJSON())
    // The first words make the session of a chat; these are a plugin's, in a session that it makes.
    const { sessionId: session } = await opened.sessions!.ensure({ user })
    await page.goto(`${app.url}/playground/#/chat/${session}`)
    for (const message of ['Do it.', 'Good day?'])
      for await (const _ of opened.turns!.start({ user, session, message }));

    const tracing = () => page.waitForResponse((answer) => answer.url().endsWith('/trace'))
    const quick = tracing()
    await page.getByRole('link', { name: 'Runs' }).click()
    await quick
    const lines = page.getByRole('list', { name: 'Steps' }).locator('[data-step]')
    await expect.poll(() => lines.count()).toBe(4)
    const slow = tracing()
    await page.getByRole('link', { name: /slow 3/ }).click()
    const { steps } = (await (await slow).json()) as Trace
    await expectDrawn(page, steps)
    const tool = steps.findIndex(({ output }) => output === 'took 120')
    await lines.nth(tool).locator('summary').click()
    await lines.nth(tool).getByText('took 120').waitFor()
    expect(await page.locator('.timeline li.inner').count()).toBe(
      steps.filter(({ within }) => within !== undefined).length,
    )
    // A turn of two processes that a person decided about, as a server told of it.
    using heldUp = new HeldUp()
    const whole = await walk(new Differences(heldUp))
    await page.route('**/runs/*/trace', (route) => route.fulfill({ json: whole }))
    await page.getByRole('link', { name: /1 model call/ }).click()
    await lines.getByText('takeover').first().waitFor()
    await expectDrawn(page, whole.steps)
    for (const what of ['approval asks for buy', 'approval approve'])
      expect(await lines.getByText(what, { exact: true }).count()).toBe(1)
    expect(complaints).toEqual([])
  }, 240_000)
})
