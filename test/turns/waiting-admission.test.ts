import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError, type StartedTurn, type Turns } from '#core'
import { call, scriptedModel, testApp, type TestUser } from '#core/testing'
import { askedGates } from '../support/asked-gates.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { sayingEngine } from '../support/fake-engines.ts'
import { heldModel } from '../support/held-model.ts'
import { replica } from '../support/replica.ts'

const refusals: Readonly<Record<number, () => RuntimeError>> = {
  402: () =>
    new RuntimeError('PAYMENT_REQUIRED', 'Payment needed.', { details: { claims: ['c'] } }),
  403: () => new RuntimeError('FORBIDDEN', 'Not you.'),
  429: () => new RuntimeError('BUDGET_SPENT', 'Spent.', { status: 429 }),
}

/** A plugin that turns away the turns whose metadata say so, and remembers what it is asked and told. */
function doorkeeper() {
  const asked: string[] = []
  const ended: string[] = []
  let isOpen = false
  let work: Promise<unknown> = Promise.resolve()
  let turns: Turns | undefined
  const plugin = definePlugin({
    name: 'doorkeeper',
    summary: 'Keeps the door.',
    visibility: 'always',
    setup(boot) {
      turns = boot.turns
      boot.pending(work, 'the door waits for its key')
      return undefined
    },
    tools: {
      knock: { description: 'Knocks.', input: z.object({}), approve: true, run: () => 'knocked' },
    },
    runs: {
      admit({ requestId, metadata }) {
        asked.push(requestId)
        const refuse = refusals[Number(metadata?.refuse)]
        if (refuse && !isOpen) throw refuse()
      },
      end: ({ runId }) => void ended.push(runId),
    },
  })
  return {
    plugin,
    asked,
    ended,
    open: () => void (isOpen = true),
    waitFor: (promise: Promise<unknown>) => void (work = promise),
    start: (turn: Parameters<Turns['start']>[0]): StartedTurn => {
      if (!turns) throw new Error('The setup did not run.')
      return turns.start(turn)
    },
  }
}

const historyOf = async (user: TestUser, sessionId: string): Promise<string[]> =>
  (await user.get(`/messages/${sessionId}?origin=all`)).body.messages.map(
    ({ type, content }: { type: string; content: string }) => `${type}: ${content}`,
  )
const waitingIn = async (user: TestUser, sessionId: string): Promise<number> =>
  (await user.get(`/sessions/${sessionId}/run`)).body.waitingTurns

async function read(turn: StartedTurn): Promise<string[]> {
  const events: string[] = []
  for await (const { event } of turn) events.push(event)
  return events
}

await onEachDatabase('a waiting turn', ({ databaseUrl }) => {
  const env = databaseUrl ? { DATABASE_URL: databaseUrl } : undefined

  test('that admit refuses when its time comes is gone, and the next one begins', async () => {
    const door = doorkeeper()
    const model = heldModel(['Well'], ['.'])
    const app = await testApp({ plugins: [door.plugin], model, env })
    onTestFinished(() => app.close())
    const user = await app.user()
    const { sessionId } = (await user.post('/sessions')).body
    const first = user.say('Hold on', { sessionId })
    await expect.poll(() => model.requests.length).toBe(1)
    expect(door.asked).toHaveLength(1)

    const start = (message: string, refuse?: number, requestId: string = randomUUID()) => ({
      requestId,
      turn: door.start({
        user,
        session: sessionId,
        message,
        requestId,
        metadata: refuse === undefined ? {} : { refuse },
      }),
    })
    const queued = []
    for (const refuse of [402, 403, 429, undefined]) {
      const started = start(`Turn ${refuse}`, refuse)
      expect(await started.turn.begun).toMatchObject({ state: 'queued', isNew: true })
      queued.push(started)
    }
    // A turn that waits has not been asked about, and neither has the second start of it.
    expect(await start('Turn 402', 402, queued[0]?.requestId).turn.begun).toMatchObject({
      state: 'queued',
      isNew: false,
    })
    expect(door.asked).toHaveLength(1)

    const codes = ['PAYMENT_REQUIRED', 'FORBIDDEN', 'BUDGET_SPENT']
    const reads = Promise.allSettled(queued.map(({ turn }) => read(turn)))
    model.goOn()
    expect((await first).status).toBe('finished')
    const ends = await Promise.all(queued.map(({ turn }) => turn.ended))
    for (const [i, code] of codes.entries())
      expect(ends[i]).toMatchObject({ status: 'failed', text: '', error: { code } })
    expect(ends[3]).toEqual({ status: 'finished', text: 'Well.' })
    for (const [i, outcome] of (await reads).entries())
      if (outcome.status === 'fulfilled') expect([i, outcome.value.at(-1)]).toEqual([3, 'done'])
      else {
        expect(outcome.reason).toBeInstanceOf(RuntimeError)
        expect(outcome.reason).toMatchObject({ code: codes[i], status: [402, 403, 429][i] })
      }

    expect(door.asked.slice(1)).toEqual(queued.map(({ requestId }) => requestId))
    expect(await waitingIn(user, sessionId)).toBe(0)
    expect(model.requests).toHaveLength(2)
    const said = ['human: Hold on', 'ai: Well.', 'human: Turn undefined', 'ai: Well.']
    expect(await historyOf(user, sessionId)).toEqual(said)
    await expect.poll(() => door.ended.length).toBe(2)

    // The names are free again.
    door.open()
    const again = start('Turn 402 again', 402, queued[0]?.requestId)
    expect(await again.turn.begun).toMatchObject({ state: 'running', isNew: true })
    expect((await again.turn.ended).status).toBe('finished')
    expect(await historyOf(user, sessionId)).toEqual([
      ...said,
      'human: Turn 402 again',
      'ai: Well.',
    ])
  })

  test('goes on waiting while the plugin that must be asked is pending', async () => {
    const door = doorkeeper()
    const model = scriptedModel([call('knock'), 'Knocked.', 'Come in.'])
    const app = await testApp({ plugins: [door.plugin], model, env })
    onTestFinished(() => app.close())
    const user = await app.user()
    const asking = await user.say('Knock', { approvals: true })
    expect(asking.status).toBe('waiting')
    const { sessionId } = asking
    const requestId = randomUUID()
    const turn = door.start({ user, session: sessionId, message: 'May I?', requestId })
    expect((await turn.begun).state).toBe('queued')

    const key = Promise.withResolvers<void>()
    door.waitFor(key.promise)
    const over = turn.ended.catch(({ code }: { code: string }) => code)
    await app.again()
    expect(await over).toBe('UNAVAILABLE')
    const rest = await user.post(`/runs/${asking.runId}/resume`, { decision: 'approve' })
    expect(rest.status).toBe(200)
    const refused = await user.post(`/messages/${sessionId}`, { message: 'Hello' })
    expect(refused).toMatchObject({ status: 503, body: { code: 'PLUGIN_PENDING' } })
    // The session is free, and the server has tried.
    await expect
      .poll(() => app.log.some((line) => line.includes('A waiting turn could not begin')))
      .toBe(true)
    // The plugin has said for itself what it waits for: a stack at each try would tell nobody anything.
    const tried = app.log.filter((line) => line.includes('A waiting turn could not begin'))
    expect(tried[0]).toContain('code=PLUGIN_PENDING')
    expect(tried.join('')).not.toContain('    at ')
    expect(await waitingIn(user, sessionId)).toBe(1)
    expect(door.asked).not.toContain(requestId)
    key.resolve()
    const found = door.start({ user, session: sessionId, message: 'May I?', requestId })
    expect(await found.begun).toMatchObject({ isNew: false })
    expect(await found.ended).toEqual({ status: 'finished', text: 'Come in.' })
    expect(door.asked.filter((id) => id === requestId)).toHaveLength(1)
  })
})

await onEachDatabase('a plugin that does not decide in time', (where) => {
  test('is told to stop, the turn is refused with 503, and nothing of it is recorded', async () => {
    let reason: unknown
    let isSlow = true
    const pensive = definePlugin({
      name: 'pensive',
      summary: 'Thinks.',
      runs: {
        admit: (_, { signal }) =>
          isSlow
            ? new Promise((_resolve, reject) =>
                signal.addEventListener('abort', () => reject((reason = signal.reason))),
              )
            : undefined,
      },
    })
    const engine = sayingEngine(['Yes.'])
    const here = await replica({ ...where, engine, gates: askedGates([pensive], 100) })
    const sessionId = await here.session()
    const body = { message: 'Hello', stream: false, requestId: randomUUID() }
    const late = await here.call('POST', `/messages/${sessionId}`, body)
    expect(late).toMatchObject({ status: 503, body: { code: 'ADMISSION_TIMEOUT' } })
    expect(late.body.message).toContain('pensive did not decide within 0.1 s')
    expect(late.headers.get('retry-after')).toBe('5')
    expect(reason).toMatchObject({ code: 'ADMISSION_TIMEOUT' })
    const messages = async () => (await here.call('GET', `/messages/${sessionId}`)).body.messages
    expect(await messages()).toEqual([])
    isSlow = false
    expect((await here.call('POST', `/messages/${sessionId}`, body)).status).toBe(200)
    expect(await messages()).toHaveLength(2)
  })
})
