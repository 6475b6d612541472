import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { type Database, definePlugin } from '#core'
import { testApp, type TestApp } from '#core/testing'
import { freshDatabase } from '../../../test/support/database.ts'
import { describeWith } from '../../../test/support/services.ts'
import { languages } from '../screens/catalogue.ts'
import ussd from '../index.ts'
import { keptMs, noCount, withAttempt } from './lock-rule.ts'
import { Phone } from '../phone.ts'

const env = {
  USSD_RATE_LIMIT_PER_MINUTE: '1000000',
  USSD_REPLY_BUDGET_MS: '15000',
  PIN_ENCRYPTION_KEY: 'ab'.repeat(32),
}
const minuteMs = 60_000
const [right, wrong] = ['48213', '55667']
const welcome = /^CON Welcome back/
const mistaken = /^CON The customer number or the PIN is wrong/
const locked = /^CON Too many wrong PINs/

beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'], now: Date.now() }))
afterEach(() => void vi.useRealTimers())
const pass = (ms: number) => vi.setSystemTime(Date.now() + ms)

async function starting(extra: Record<string, string>) {
  let db: Database | undefined
  const insider = definePlugin({
    name: 'insider',
    summary: 'Has the connection.',
    visibility: 'silent',
    setup: (boot) => void (db = boot.db),
  })
  const app = await testApp({ plugins: [ussd, insider], env: { ...env, ...extra } })
  onTestFinished(() => app.close())
  const rows = async (table: string) => {
    const counted = await sql<{
      n: number | string
    }>`select count(*) as n from ${sql.table(table)}`.execute(db!)
    return Number(counted.rows[0]?.n)
  }
  return { app, rows, say: (text: string) => sql.raw(text).execute(db!) }
}

const phoneOf = (app: TestApp, number: string) =>
  new Phone(number, async (request) => (await app.post('/api/ussd', request)).body)

async function create(phone: Phone): Promise<string> {
  await phone.dial()
  const answer = await phone.type('2', '1', 'Amina Wanjiru', '1', right, right)
  return /customer number is (\d{9})/.exec(answer)?.[1] ?? answer
}

async function logIn(phone: Phone, customerId: string, pin: string): Promise<string> {
  await phone.dial()
  return phone.type('2', '2', customerId, pin)
}

async function guess(phone: Phone, customerId: string, times: number): Promise<string[]> {
  const answers = []
  for (let tries = 0; tries < times; tries++) answers.push(await logIn(phone, customerId, wrong))
  return answers
}

const owners = '+254711000111'
const strangers = (nth: number) => `+2547990000${10 + nth}`

async function withAccount(extra: Record<string, string>) {
  const { app, ...rest } = await starting(extra)
  const owner = phoneOf(app, owners)
  return { app, owner, customerId: await create(owner), ...rest }
}

/** The tests of locks that depend on the database, for rows and for concurrent attempts. */
const suite = (database: () => Promise<Record<string, string>>) => {
  const started = async () => withAccount(await database())

  it('five wrong PINs lock a phone for an account, and a log-in to another account clears nothing', async () => {
    const { app, customerId } = await started()
    const guesser = phoneOf(app, strangers(1))
    const own = await create(guesser)
    const answers: string[] = []
    for (let round = 0; round < 6; round++) {
      answers.push(...(await guess(guesser, customerId, 4)))
      expect(await logIn(guesser, own, right)).toMatch(welcome)
    }
    expect(answers).toHaveLength(24)
    for (const answer of answers.slice(0, 5)) expect(answer).toMatch(mistaken)
    for (const answer of answers.slice(5)) expect(answer).toMatch(locked)
    expect(await logIn(guesser, customerId, right)).toMatch(locked)
  })

  it('two strangers with five guesses each lock an account for strangers, and its owner logs in', async () => {
    const { app, owner, customerId } = await started()
    for (const nth of [1, 2])
      for (const answer of await guess(phoneOf(app, strangers(nth)), customerId, 5))
        expect(answer).toMatch(mistaken)
    expect(await logIn(phoneOf(app, strangers(3)), customerId, right)).toMatch(locked)
    expect(await logIn(owner, customerId, right)).toMatch(welcome)
    // The owner's log-in does not lift the lock for strangers.
    expect(await logIn(phoneOf(app, strangers(4)), customerId, right)).toMatch(locked)
    pass(15 * minuteMs + 1)
    expect(await logIn(phoneOf(app, strangers(3)), customerId, right)).toMatch(welcome)
  })

  it('ten wrong PINs of one phone lock it for the accounts of others, and not for its own', async () => {
    const { app, customerId } = await started()
    const guesser = phoneOf(app, strangers(1))
    const own = await create(guesser)
    for (let nth = 0; nth < 10; nth++)
      expect(await logIn(guesser, `90000000${nth}`, wrong)).toMatch(mistaken)
    expect(await logIn(guesser, customerId, right)).toMatch(locked)
    expect(await logIn(guesser, '900000099', wrong)).toMatch(locked)
    expect(await logIn(guesser, own, right)).toMatch(welcome)
    expect(await logIn(guesser, customerId, right)).toMatch(locked)
  })

  it('a phone that the right PIN was typed on is the account’s own from then on', async () => {
    const { app, customerId } = await started()
    const newPhone = phoneOf(app, strangers(1))
    expect(await logIn(newPhone, customerId, right)).toMatch(welcome)
    for (const nth of [2, 3]) await guess(phoneOf(app, strangers(nth)), customerId, 5)
    expect(await logIn(phoneOf(app, strangers(4)), customerId, right)).toMatch(locked)
    expect(await logIn(newPhone, customerId, right)).toMatch(welcome)
    for (const answer of await guess(newPhone, customerId, 5)) expect(answer).toMatch(mistaken)
    expect(await logIn(newPhone, customerId, right)).toMatch(locked)
  })

  it('time alone clears a count: after a week it is gone, and its rows with it', async () => {
    const { owner, customerId, rows, app } = await started()
    await guess(owner, customerId, 4)
    await guess(phoneOf(app, strangers(1)), customerId, 5)
    expect(await rows('ussd_locks')).toBe(4)
    pass(keptMs - minuteMs)
    await guess(owner, customerId, 1)
    expect(await logIn(owner, customerId, right)).toMatch(locked)
    pass(keptMs + 24 * 60 * minuteMs)
    for (const answer of await guess(owner, customerId, 4)) expect(answer).toMatch(mistaken)
    expect(await rows('ussd_locks')).toBe(1)
  })

  it('of guesses at the same moment five get a look, from as many calls as there may be', async () => {
    const { app, customerId } = await started()
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => logIn(phoneOf(app, strangers(1)), customerId, wrong)),
    )
    expect(answers.filter((answer) => mistaken.test(answer))).toHaveLength(5)
    expect(answers.filter((answer) => locked.test(answer))).toHaveLength(45)
    expect(await logIn(phoneOf(app, strangers(1)), customerId, right)).toMatch(locked)
  })

  it('of guesses from many phones at the same moment ten get a look', async () => {
    const { app, owner, customerId } = await started()
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, nth) =>
        logIn(phoneOf(app, strangers(nth)), customerId, wrong),
      ),
    )
    expect(answers.filter((answer) => mistaken.test(answer))).toHaveLength(10)
    expect(await logIn(owner, customerId, right)).toMatch(welcome)
  })

  it('right PINs at the same moment are all let in and leave nothing counted', async () => {
    const { app, customerId, rows } = await started()
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, nth) => logIn(phoneOf(app, strangers(nth)), customerId, right)),
    )
    for (const answer of answers) expect(answer).toMatch(welcome)
    const again = await guess(phoneOf(app, strangers(20)), customerId, 5)
    for (const answer of again) expect(answer).toMatch(mistaken)
    expect(await rows('ussd_accounts')).toBe(1)
  })
}

describe('the rule of wrong PINs', () => {
  const started = () => withAccount({})

  it('the same from the phone of the owner, who has two accounts', async () => {
    const { owner, customerId } = await started()
    const other = await create(owner)
    const answers: string[] = []
    for (let round = 0; round < 6; round++) {
      answers.push(...(await guess(owner, customerId, 4)))
      expect(await logIn(owner, other, right)).toMatch(welcome)
    }
    expect(answers.filter((answer) => mistaken.test(answer))).toHaveLength(5)
    for (const answer of answers.slice(5)) expect(answer).toMatch(locked)
    pass(15 * minuteMs + 1)
    expect(await logIn(owner, customerId, right)).toMatch(welcome)
  })

  it('the right PIN of the account from the phone starts the count anew', async () => {
    const { owner, customerId } = await started()
    for (let round = 0; round < 3; round++) {
      for (const answer of await guess(owner, customerId, 4)) expect(answer).toMatch(mistaken)
      expect(await logIn(owner, customerId, right)).toMatch(welcome)
    }
  })

  it('an account has the five phones that it was used from last, and the one it was created from', async () => {
    const { app, owner, customerId, rows } = await started()
    for (let nth = 1; nth <= 7; nth++) {
      expect(await logIn(phoneOf(app, strangers(nth)), customerId, right)).toMatch(welcome)
      pass(1000)
    }
    expect(await rows('ussd_own_phones')).toBe(5)
    for (const nth of [8, 9]) await guess(phoneOf(app, strangers(nth)), customerId, 5)
    expect(await logIn(phoneOf(app, strangers(2)), customerId, right)).toMatch(locked)
    expect(await logIn(phoneOf(app, strangers(3)), customerId, right)).toMatch(welcome)
    expect(await logIn(owner, customerId, right)).toMatch(welcome)
  })

  it('the locks of a pair, an account and a phone double up to a day', () => {
    for (const [subject, most] of [
      ['pair:1:+2', 5],
      ['account:1', 10],
      ['phone:+2', 10],
    ] as const) {
      let now = Date.now()
      let count = noCount(subject)
      const minutes = []
      for (let round = 0; round < 9; round++) {
        for (let tries = 1; tries <= most; tries++) {
          expect(count.locked_until).toBeLessThanOrEqual(now)
          count = withAttempt(count, now)
        }
        minutes.push((count.locked_until - now) / minuteMs)
        now = count.locked_until
      }
      expect(minutes).toEqual([15, 30, 60, 120, 240, 480, 960, 1440, 1440])
    }
  })

  it('each further lock lasts twice as long, and knocking lengthens none', async () => {
    const { owner, customerId } = await started()
    for (const minutes of [15, 30, 60, 120]) {
      await guess(owner, customerId, 5)
      const wait = minutes < 90 ? `${minutes} minutes` : `${minutes / 60} hours`
      expect(await logIn(owner, customerId, right)).toContain(`Try again in ${wait}.`)
      pass(minutes * minuteMs - 1000)
      expect(await logIn(owner, customerId, right)).toContain('Try again in 1 minute.')
      pass(1001)
    }
    expect(await logIn(owner, customerId, right)).toMatch(welcome)
    await guess(owner, customerId, 5)
    expect(await logIn(owner, customerId, right)).toContain('Try again in 15 minutes.')
  })

  it('a lock of strangers doubles likewise', async () => {
    const { app, customerId } = await started()
    let phones = 0
    for (const minutes of [15, 30, 60]) {
      for (let nth = 0; nth < 10; nth++)
        expect((await guess(phoneOf(app, strangers(phones++)), customerId, 1))[0]).toMatch(mistaken)
      const answer = await logIn(phoneOf(app, strangers(99)), customerId, right)
      expect(answer).toContain(`Try again in ${minutes} minutes.`)
      pass(minutes * minuteMs + 1)
    }
  })

  it('an account that is not there is guessed at, counted and locked like one that is', async () => {
    const { app, customerId } = await started()
    const history = async (id: string, offset: number) => {
      const said = []
      for (const nth of [0, 1])
        said.push(...(await guess(phoneOf(app, strangers(offset + nth)), id, 6)))
      said.push(await logIn(phoneOf(app, strangers(offset + 2)), id, wrong))
      return said
    }
    expect(await history('123456780', 0)).toEqual(await history(customerId, 10))
  })

  it('says when to try again in each language, on one screen', async () => {
    const { owner, customerId } = await started()
    const words = {
      en: /^CON Too many wrong PINs\. Try again in 15 minutes\.\nYour PIN:/,
      sw: /^CON PIN nyingi si sahihi\. Jaribu tena baada ya dakika 15\.\nPIN yako:/,
      fr: /^CON Trop de codes faux\. Réessayez dans 15 minutes\.\nVotre code/,
    }
    await guess(owner, customerId, 5)
    for (const [nth, language] of languages.entries()) {
      await owner.dial()
      await owner.type('2', '3', String(nth + 1))
      expect(await logIn(owner, customerId, right)).toMatch(words[language])
    }
  })

  it('never erases a PIN', async () => {
    const { app, owner, customerId } = await started()
    for (let round = 0; round < 2; round++) {
      await guess(owner, customerId, 6)
      for (const nth of [1, 2]) await guess(phoneOf(app, strangers(nth)), customerId, 6)
      pass(24 * 60 * minuteMs)
    }
    expect(await logIn(owner, customerId, right)).toMatch(welcome)
  })
})

describe('wrong PINs on SQLite', () => {
  suite(async () => ({}))

  it('are counted over a restart, and locks of before are kept by the migration', async () => {
    const DATA_DIR = mkdtempSync(join(tmpdir(), 'oracle-ussd-'))
    onTestFinished(() => rmSync(DATA_DIR, { recursive: true, force: true }))
    const before = await starting({ DATA_DIR })
    const customerId = await create(phoneOf(before.app, owners))
    await guess(phoneOf(before.app, strangers(1)), customerId, 3)
    // The old table, with a locked phone and a locked account.
    const until = Date.now() + 10 * minuteMs
    await before.say('drop table ussd_locks')
    await before.say('drop table ussd_own_phones')
    await before.say(
      'create table ussd_attempts (subject text, failures integer, failed_at bigint, locked_until bigint)',
    )
    for (const subject of [`phone:${owners}`, `account:${customerId}`])
      await before.say(
        `insert into ussd_attempts values ('${subject}', 5, ${Date.now()}, ${until})`,
      )
    for (const table of ['ussd_accounts', 'ussd_phones']) {
      await before.say(`drop index ${table}_used_at`)
      await before.say(`alter table ${table} drop column used_at`)
    }
    for (const column of ['network', 'operator'])
      await before.say(`alter table ussd_sessions drop column ${column}`)
    await before.say("delete from ussd_migrations where name >= '003-locks-by-pair'")
    await before.app.close()

    const { app, rows } = await starting({ DATA_DIR })
    expect(await rows('ussd_locks')).toBe(3)
    const owner = phoneOf(app, owners)
    expect(await logIn(owner, customerId, right)).toContain('Try again in 10 minutes.')
    expect(await logIn(phoneOf(app, strangers(2)), customerId, right)).toMatch(locked)
    pass(10 * minuteMs + 1)
    expect(await logIn(phoneOf(app, strangers(2)), customerId, right)).toMatch(welcome)
    await guess(owner, customerId, 5)
    expect(await logIn(owner, customerId, right)).toContain('Try again in 30 minutes.')
    await app.close()

    const after = await starting({ DATA_DIR })
    expect(await logIn(phoneOf(after.app, owners), customerId, right)).toMatch(locked)
    pass(30 * minuteMs + 1)
    expect(await logIn(phoneOf(after.app, owners), customerId, right)).toMatch(welcome)
  })
})

await describeWith('postgres', 'wrong PINs on PostgreSQL', (url) => {
  const fresh = async () => {
    const database = await freshDatabase(url)
    onTestFinished(database.drop)
    return { DATABASE_URL: database.url }
  }
  suite(fresh)

  it('are counted by all replicas together, also after a restart', async () => {
    const shared = await fresh()
    const [one, two] = [await starting(shared), await starting(shared)]
    const customerId = await create(phoneOf(one.app, owners))
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, nth) =>
        logIn(phoneOf((nth % 2 ? one : two).app, strangers(1)), customerId, wrong),
      ),
    )
    expect(answers.filter((answer) => mistaken.test(answer))).toHaveLength(5)
    await one.app.close()
    await two.app.close()
    const { app } = await starting(shared)
    expect(await logIn(phoneOf(app, strangers(1)), customerId, right)).toMatch(locked)
    expect(await logIn(phoneOf(app, owners), customerId, right)).toMatch(welcome)
  })

  it('of many phones and many accounts at once on two replicas stop nobody by waiting for each other', async () => {
    const shared = await fresh()
    const replicas = [await starting(shared), await starting(shared)]
    const ids = [await create(phoneOf(replicas[0]!.app, owners)), '123456780', '123456781']
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, nth) =>
        logIn(phoneOf(replicas[nth % 2]!.app, strangers(nth % 4)), ids[nth % 3]!, wrong),
      ),
    )
    for (const answer of answers) expect(answer).toMatch(/^CON (The customer number|Too many)/)
    expect(answers.filter((answer) => mistaken.test(answer)).length).toBeLessThanOrEqual(30)
  })
})
