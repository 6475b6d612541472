import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { testApp, type TestApp } from '#core/testing'
import { flakyWire, freshDatabase } from '../../test/support/database.ts'
import { describeWith } from '../../test/support/services.ts'
import ussd, { defineMenu, end } from './index.ts'
import { Phone } from './phone.ts'
import { invalidInput } from './request.ts'

const unavailable = 'END Service temporarily unavailable. Please try again later.'
const env = { USSD_RATE_LIMIT_PER_MINUTE: '1000000', PIN_ENCRYPTION_KEY: 'ab'.repeat(32) }

const phoneOf = (app: TestApp, number = '+254711000111') =>
  new Phone(number, async (request) => {
    const { status, body } = await app.post('/api/ussd', request)
    expect(status).toBe(200)
    return body
  })

/** A menu of another plugin, which counts its effects and can be slow. */
function counter() {
  const seen = {
    effects: 0,
    values: [] as string[],
    /** If set, `next` waits for this promise. */
    held: undefined as Promise<void> | undefined,
    broken: false,
  }
  const words = {
    title: 'Count',
    ask: 'Say something:',
    done: 'Done {n}.',
    echo: 'You said {value}.',
    bye: 'Bye {n}.',
  }
  const menu = defineMenu({
    name: 'count',
    title: 'title',
    start: 'ask',
    texts: { en: words, sw: words, fr: words },
    screens: {
      ask: {
        ask: 'ask',
        input: z.string(),
        async next(value, { memory }) {
          if (seen.broken) throw new Error('the handler broke')
          seen.effects++
          seen.values.push(value)
          memory.n = String(seen.effects)
          await seen.held
          memory.value = value
          if (value === 'bye') return end('bye', { n: memory.n })
          return value.startsWith('mine') ? 'echo' : 'done'
        },
      },
      echo: {
        text: 'echo',
        values: ({ memory }) => ({ value: memory.value ?? '' }),
        sample: { value: 'x'.repeat(20) },
      },
      done: {
        text: 'done',
        values: ({ memory }) => ({ n: memory.n ?? '' }),
        sample: { n: '99999' },
        options: { '1': 'more' },
      },
      more: {
        title: 'title',
        ask: 'ask',
        input: z.string(),
        async next(value) {
          seen.effects++
          seen.values.push(value)
          return 'done'
        },
      },
    },
  })
  const plugin = definePlugin({
    name: 'counter',
    summary: 'Counts.',
    visibility: 'silent',
    requires: [ussd],
    setup: ({ plugins }) => plugins.ussd.addMenu(menu),
  })
  return { plugin, seen }
}

/** Makes the counter's next screen wait until the test calls the returned function or ends. */
function hold(seen: ReturnType<typeof counter>['seen']): () => void {
  const work = Promise.withResolvers<void>()
  onTestFinished(() => work.resolve())
  seen.held = work.promise
  return work.resolve
}

async function starting(extra: Record<string, string> = {}) {
  const { plugin, seen } = counter()
  const app = await testApp({ plugins: [ussd, plugin], env: { ...env, ...extra } })
  onTestFinished(() => app.close())
  return { app, seen, phone: phoneOf(app) }
}

const suite = (database: () => Promise<Record<string, string>>) => {
  const begin = async (extra: Record<string, string> = {}) =>
    starting({ ...(await database()), ...extra })

  it('works on what is new in the text: empty inputs and asterisks are inputs too', async () => {
    const { phone, seen } = await begin()
    await phone.dial()
    expect(await phone.type('4')).toBe('CON Say something:\n0. Back')
    expect(await phone.type('two * and * more')).toMatch(/^CON Done 1\./)
    expect(seen.values).toEqual(['two * and * more'])
    expect(await phone.type('')).toMatch(/^CON Not an option/)
    expect(await phone.type('1')).toMatch(/^CON Say something/)
    expect(await phone.type('*')).toMatch(/^CON Done/)
    expect(seen.values).toEqual(['two * and * more', '*'])
  })

  it('answers a repeated request the same and does its work once, also at the same moment', async () => {
    const { phone, seen } = await begin()
    await phone.dial()
    await phone.type('4')
    phone.text = '4*hello'
    const answers = await Promise.all(Array.from({ length: 5 }, () => phone.again()))
    expect(new Set(answers)).toEqual(new Set(['CON Done 1.\n1. Count\n0. Back']))
    expect(seen.effects).toBe(1)
    expect(await phone.again()).toBe(answers[0])
    expect(seen.effects).toBe(1)
  })

  it('repeats the end too, and nothing goes on after it', async () => {
    const { app, phone, seen } = await begin()
    await phone.dial()
    expect(await phone.type('4', 'bye')).toBe('END Bye 1.')
    expect(await phone.again()).toBe('END Bye 1.')
    expect(await phone.type('4')).toBe('END Bye 1.')
    expect(seen.effects).toBe(1)
    const { body } = await app.get(`/api/ussd/debug/${phone.sessionId}`)
    expect(body.debugInfo.status).toBe('done')
    expect(body.activeSessions).toEqual([])
  })

  it('is not changed by late and out-of-order copies', async () => {
    const { phone, seen } = await begin()
    await phone.dial()
    const shown = await phone.type('4', 'hello')
    for (const late of ['', '4', '1', '4*hell', '5*hello*1', '4*hellO*1']) {
      phone.text = late
      expect(await phone.again(), late).toBe(shown)
    }
    phone.text = '4*hello'
    expect(await phone.type('1')).toMatch(/^CON Say something/)
    expect(seen.effects).toBe(1)
  })

  it('is never continued by another number', async () => {
    const { app, phone } = await begin()
    await phone.dial('shared')
    await phone.type('2')
    const thief = phoneOf(app, '+254799999999')
    expect(await thief.dial('shared')).toBe(invalidInput)
    expect(await thief.type('2', '1')).toBe(invalidInput)
    expect(await phone.type('1')).toMatch(/^CON Your name/)
  })

  it('keeps a thousand interleaved sessions apart', async () => {
    const { app, seen } = await begin()
    const phones = Array.from({ length: 1000 }, (_, n) =>
      phoneOf(app, `+2547${String(n).padStart(8, '0')}`),
    )
    await each(phones, (phone) => phone.dial())
    await each(phones, (phone) => phone.type('4'))
    // Every phone sends its request twice at once, so the order of requests is random.
    const echoes = await each(phones, (phone, n) => {
      const first = phone.type(`mine ${n}`)
      return Promise.all([first, phone.again()])
    })
    for (const [n, echo] of echoes.entries())
      expect(echo).toEqual([`CON You said mine ${n}.\n0. Back`, `CON You said mine ${n}.\n0. Back`])
    expect(new Set(seen.values).size).toBe(1000)
    expect(seen.effects).toBe(1000)
    const { body } = await app.get('/api/ussd/sessions')
    expect(body.count).toBe(1000)
  }, 180_000)

  it('takes the numbers of a dialled short cut, and does nothing by them', async () => {
    const { phone, seen } = await begin()
    phone.sessionId = randomUUID()
    phone.text = '1*2'
    expect(await phone.again()).toMatch(/^CON Reply with the number/)
    phone.sessionId = randomUUID()
    phone.text = '4*hello'
    expect(await phone.again()).toMatch(/^CON Say something/)
    expect(seen.effects).toBe(0)
    expect(await phone.type('now')).toMatch(/^CON Done 1/)
    expect(seen.values).toEqual(['now'])
  })

  it('expires: the debug page no longer knows it, and the same id begins anew', async () => {
    const { app, phone } = await begin({ USSD_SESSION_TTL_SECONDS: '1' })
    await phone.dial('short')
    await phone.type('2')
    expect((await app.get('/api/ussd/debug/short')).body.debugInfo.state).toBe('account.menu')
    await expect
      .poll(async () => (await app.get('/api/ussd/debug/short')).status, { timeout: 15_000 })
      .toBe(404)
    await expect
      .poll(async () => (await app.get('/api/ussd/metrics')).body.droppedAt, { timeout: 15_000 })
      .toEqual({ 'account.menu': 1 })
    expect(await phone.dial('short')).toMatch(/^CON Welcome/)
  })

  it('tells the phone to wait for a slow screen, and has the result on the next input', async () => {
    const { phone, seen } = await begin({ USSD_REPLY_BUDGET_MS: '100' })
    await phone.dial()
    await phone.type('4')
    const goOn = hold(seen)
    expect(await phone.type('slow')).toBe('CON Still working.\n1. Continue')
    expect(await phone.again()).toBe('CON Still working.\n1. Continue')
    goOn()
    let answer = ''
    for (let tries = 0; tries < 20 && !answer.startsWith('CON Done'); tries++)
      answer = await phone.type('1')
    expect(answer).toMatch(/^CON Done 1\./)
    expect(seen.effects).toBe(1)
    expect(await phone.again()).toBe(answer)
  })

  it('a handler that fails is said in the exact words, and the input may be given again', async () => {
    const { app, phone, seen } = await begin()
    await phone.dial()
    await phone.type('4')
    seen.broken = true
    expect(await phone.type('hello')).toBe(unavailable)
    seen.broken = false
    expect(await phone.again()).toMatch(/^CON Done 1/)
    expect(app.log.join('\n')).toContain('a request failed')
  })

  it('offers to go on after a redial, inside the entry that was left', async () => {
    const { phone } = await begin({ USSD_RESUME_SECONDS: '60' })
    await phone.dial()
    await phone.type('2', '1', 'Amina Wanjiru')
    expect(await phone.dial()).toMatch(/^CON Welcome/)
    expect(await phone.type('1')).toMatch(/^CON What would you like/)
    expect(await phone.type('0', '2')).toBe(
      'CON You left this unfinished.\n1. Continue\n2. Start again\n0. Back',
    )
    expect(await phone.type('1')).toMatch(/^CON Your e-mail/)
    await phone.dial()
    expect(await phone.type('2', '2')).toMatch(/^CON Your account/)
  })
}

describe('a session on SQLite', () => suite(async () => ({})))

await describeWith('postgres', 'a session on PostgreSQL', (url) => {
  async function fresh() {
    const database = await freshDatabase(url)
    onTestFinished(database.drop)
    return database.url
  }
  suite(async () => ({ DATABASE_URL: await fresh() }))

  it('goes on at another replica, and each effect happens once', async () => {
    const DATABASE_URL = await fresh()
    const one = await starting({ DATABASE_URL })
    const two = await starting({ DATABASE_URL })
    const effects = () => one.seen.effects + two.seen.effects
    const here = phoneOf(one.app)
    const there = phoneOf(two.app)
    there.sessionId = await here.dial().then(() => here.sessionId)
    await here.type('4')
    there.text = '4*hello'
    here.text = there.text
    const answers = await Promise.all(
      [here, there, here, there, here].map((phone) => phone.again()),
    )
    expect(new Set(answers)).toEqual(new Set(['CON Done 1.\n1. Count\n0. Back']))
    expect(effects()).toBe(1)
    // The first server has an old copy of the session in memory now.
    expect(await there.type('1')).toMatch(/^CON Say something/)
    here.text = there.text
    expect(await here.type('again')).toMatch(/^CON Done/)
    expect(effects()).toBe(2)
  })

  it('is counted as dropped once, by the replica that had it last', async () => {
    const shared = { DATABASE_URL: await fresh(), USSD_SESSION_TTL_SECONDS: '2' }
    const one = await starting(shared)
    const two = await starting(shared)
    const dropped = async ({ app }: typeof one) =>
      (await app.get('/api/ussd/metrics')).body.droppedAt
    await one.phone.dial()
    await one.phone.type('2')
    two.phone.sessionId = one.phone.sessionId
    two.phone.text = one.phone.text
    await two.phone.type('1')
    await expect.poll(() => dropped(two), { timeout: 10_000 }).toEqual({ 'account.name': 1 })
    await sleep(1500)
    expect(await dropped(one)).toEqual({})
  })

  it('goes on while servers move to another PIN key one after the other', async () => {
    const DATABASE_URL = await fresh()
    const next = {
      PIN_ENCRYPTION_KEY: 'cd'.repeat(32),
      PIN_ENCRYPTION_KEY_PREVIOUS: 'ab'.repeat(32),
    }
    const former = await starting({ DATABASE_URL })
    const later = await starting({ DATABASE_URL, ...next })
    const { phone } = former
    const handOver = (to: Phone, from: Phone) => {
      to.sessionId = from.sessionId
      to.text = from.text
    }
    await phone.dial()
    await phone.type('2', '1', 'Amina', '1', '48213')
    handOver(later.phone, phone)
    expect(await later.phone.again()).toMatch(/^CON Type the PIN once more/)
    expect(await later.phone.type('48214')).toMatch(/^CON The two PINs differ/)
    // During the change of keys, requests still reach the server that has only the former key.
    handOver(phone, later.phone)
    expect(await phone.again()).toMatch(/^CON The two PINs differ/)
    expect(await phone.type('48213')).toMatch(/^CON Your account is ready/)
    handOver(later.phone, phone)
    expect(await later.phone.type('0', '4')).toMatch(/^CON (Not an option|Say something)/)
  })

  it('hands the result of a slow screen to the replica that is asked next', async () => {
    const shared = { DATABASE_URL: await fresh(), USSD_REPLY_BUDGET_MS: '300' }
    const one = await starting(shared)
    const two = await starting(shared)
    await one.phone.dial()
    await one.phone.type('4')
    const goOn = hold(one.seen)
    expect(await one.phone.type('slow')).toMatch(/^CON Still working/)
    two.phone.sessionId = one.phone.sessionId
    two.phone.text = one.phone.text
    expect(await two.phone.again()).toMatch(/^CON Still working/)
    goOn()
    await expect.poll(() => two.phone.type('1'), { timeout: 10_000 }).toMatch(/^CON Done 1\./)
    expect(one.seen.effects + two.seen.effects).toBe(1)
  })

  it('says so when the server that was at work is gone, and does not repeat the work', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() })
    onTestFinished(() => void vi.useRealTimers())
    const shared = { DATABASE_URL: await fresh(), USSD_REPLY_BUDGET_MS: '100' }
    const one = await starting(shared)
    const two = await starting(shared)
    await one.phone.dial()
    await one.phone.type('4')
    hold(one.seen)
    expect(await one.phone.type('slow')).toMatch(/^CON Still working/)
    two.phone.sessionId = one.phone.sessionId
    two.phone.text = one.phone.text
    vi.setSystemTime(Date.now() + 66_000)
    expect(await two.phone.type('1')).toBe(
      'CON That was interrupted. Please check before you try again.\nSay something:\n0. Back',
    )
    expect(two.seen.effects).toBe(0)
    expect(await two.phone.type('once more')).toMatch(/^CON Done/)
    expect(two.seen.values).toEqual(['once more'])
  })

  it('says the exact words when the database falls silent', async () => {
    const wire = await flakyWire(await fresh())
    onTestFinished(wire.close)
    const { phone } = await starting({ DATABASE_URL: wire.url, USSD_REPLY_BUDGET_MS: '100' })
    await phone.dial()
    wire.silence()
    expect(await phone.type('2')).toBe(unavailable)
    await wire.cut()
  })

  it('goes on after a restart in the middle', async () => {
    const DATABASE_URL = await fresh()
    const before = await starting({ DATABASE_URL })
    await before.phone.dial()
    await before.phone.type('2', '1', 'Amina')
    await before.app.close()
    const after = await starting({ DATABASE_URL })
    after.phone.sessionId = before.phone.sessionId
    after.phone.text = before.phone.text
    expect(await after.phone.type('1')).toMatch(/^CON Choose a PIN/)
  })

  it('says the exact words while the database is away, and goes on when it is back', async () => {
    const wire = await flakyWire(await fresh())
    onTestFinished(wire.close)
    const { app, phone } = await starting({ DATABASE_URL: wire.url })
    await phone.dial()
    await phone.type('2')
    await wire.cut()
    expect(await phone.type('1')).toBe(unavailable)
    expect(await phoneOf(app, '+254711000222').dial()).toBe(unavailable)
    const keyed = { sessionId: 'k', serviceCode: '*1#', phoneNumber: '+254711000333', text: '' }
    const early = await app.post('/api/ussd', keyed, { 'idempotency-key': 'a-key' })
    expect([early.status, early.body]).toEqual([200, unavailable])
    expect((await app.get('/health')).body).toMatchObject({
      status: 'degraded',
      database: 'unreachable',
    })
    await wire.restore()
    await expect
      .poll(async () => (await app.get('/health')).body.database, { timeout: 15_000 })
      .toBe('connected')
    expect(await phone.again()).toMatch(/^CON Your name/)
  })
})

/** Runs work for all items, a hundred at a time, because a busy machine cannot open a thousand connections in time. */
async function each<T, R>(items: readonly T[], work: (item: T, n: number) => Promise<R>) {
  const results: R[] = []
  const rest = items.entries()
  const worker = async () => {
    for (const [n, item] of rest) results[n] = await work(item, n)
  }
  await Promise.all(Array.from({ length: 100 }, worker))
  return results
}
