import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { testApp } from '#core/testing'
import { freshDatabase } from '../../test/support/database.ts'
import { describeWith } from '../../test/support/services.ts'
import ussd, { defineMenu } from './index.ts'
import { Phone } from './phone.ts'

// One PIN for each way that a PIN can go; the digits are in no time, phone number or id of a run except by chance.
const pins = {
  right: '48213',
  different: '70926',
  wrong: '59381',
  toUpstream: '64027',
  weak: '77777',
  dialled: '30758',
  tooLong: '91562',
  slow: '26149',
  form: '83604',
}

const words = { title: 'Tell', ask: 'A secret:' }
/** A menu whose handler throws an error that quotes the secret. */
const telltale = definePlugin({
  name: 'telltale',
  summary: 'Tells secrets.',
  visibility: 'silent',
  requires: [ussd],
  setup: ({ plugins }) =>
    plugins.ussd.addMenu(
      defineMenu({
        name: 'tell',
        title: 'title',
        start: 'secret',
        texts: { en: words, sw: words, fr: words },
        screens: {
          secret: {
            ask: 'ask',
            input: z.string(),
            secret: true,
            async next(pin) {
              if (pin === pins.slow) await sleep(300)
              throw new Error(`the upstream said ${pin}`)
            },
          },
        },
      }),
    ),
})

/** Types PINs in every way possible; returns the answers, and everything that operators could see. */
async function everyWay(env: Record<string, string>) {
  const app = await testApp({
    plugins: [ussd, telltale],
    env: {
      USSD_RATE_LIMIT_PER_MINUTE: '1000000',
      USSD_REPLY_BUDGET_MS: '200',
      LOG_LEVEL: 'trace',
      ...env,
    },
  })
  onTestFinished(() => app.close())
  const seen: string[] = []
  const look = async (id: string) => {
    for (const path of [`debug/${id}`, 'sessions', 'metrics'])
      seen.push(JSON.stringify((await app.get(`/api/ussd/${path}`)).body))
  }
  const phone = new Phone('+254711000111', async (request) => {
    const { body } = await app.post('/api/ussd', request)
    seen.push(body)
    await look(request.sessionId)
    return body
  })
  const patiently = async (...inputs: string[]) => {
    let answer = await phone.type(...inputs)
    for (let tries = 0; /Still/.test(answer) && tries < 50; tries++) answer = await phone.type('1')
    return answer
  }
  await phone.dial('pin-session')
  expect(await phone.type('2', '1', 'Amina', '1', pins.weak)).toMatch(/Too easy/)
  expect(await patiently(pins.right)).toMatch(/once more/)
  expect(await patiently(pins.different)).toMatch(/differ/)
  const created = await patiently(pins.right)
  const customerId = /is (\d{9})/.exec(created)![1]!
  await phone.dial()
  await phone.type('2', '2', customerId)
  expect(await patiently(pins.wrong)).toMatch(/wrong/)
  expect(await patiently(pins.right)).toMatch(/Welcome back/)

  await phone.dial()
  expect(await phone.type('4', pins.toUpstream)).toMatch(/^END Service temporarily unavailable/)
  await phone.dial()
  expect(await phone.type('4', pins.slow)).toMatch(/^CON Still working/)
  await expect.poll(() => phone.type('1'), { timeout: 15_000 }).toMatch(/interrupted/)
  phone.sessionId = 'dialled'
  phone.text = `2*2*${customerId}*${pins.dialled}`
  await phone.again()
  phone.text = `2*2*${customerId}*${pins.tooLong}*`.padEnd(183, '1')
  expect(await phone.again()).toMatch(/^END Invalid/)
  const form = new URLSearchParams({
    sessionId: 'pin-session',
    serviceCode: '*384#',
    phoneNumber: '+254711000111',
    text: `2*2*${customerId}*${pins.form}`,
  })
  const asForm = {
    'content-type': 'application/x-www-form-urlencoded',
    'idempotency-key': 'form-1',
  }
  seen.push((await app.post('/api/ussd', form.toString(), asForm)).body)
  seen.push((await app.post('/api/ussd', `${form}`.replace('text=', 'text=%'), asForm)).body)
  await app.close()
  const logged = app.log.join('\n')
  expect(logged).toContain('secret screen failed')
  return [...seen, logged]
}

function expectNoPin(texts: readonly string[]) {
  // Customer ids and times are digits too, so the search looks for a PIN without digits around it.
  for (const [way, pin] of Object.entries(pins))
    for (const text of texts)
      expect(new RegExp(`(?<![0-9])${pin}(?![0-9])`).exec(text)?.[0], way).toBeUndefined()
}

describe('no PIN stands in an answer, a log line, a debug record', () => {
  it('or a file of SQLite', async () => {
    const DATA_DIR = mkdtempSync(join(tmpdir(), 'oracle-ussd-'))
    onTestFinished(() => rmSync(DATA_DIR, { recursive: true, force: true }))
    const texts = await everyWay({ DATA_DIR })
    const files = readdirSync(DATA_DIR).filter((file) => file.startsWith('oracle.sqlite'))
    const stored = files.map((file) => readFileSync(join(DATA_DIR, file), 'latin1'))
    expect(stored.join()).toContain('pin-session')
    expectNoPin([...texts, ...stored])
  })
})

await describeWith('postgres', 'no PIN stands in an answer, a log line, a debug record', (url) => {
  it('or a row of PostgreSQL', async () => {
    const database = await freshDatabase(url)
    onTestFinished(database.drop)
    const texts = await everyWay({ DATABASE_URL: database.url })
    const client = new pg.Client(database.url)
    await client.connect()
    try {
      const { rows: tables } = await client.query(
        "select table_name from information_schema.tables where table_schema = 'public'",
      )
      const stored: string[] = []
      for (const { table_name: table } of tables)
        stored.push(
          ...(await client.query(`select row_to_json(t)::text as row from "${table}" t`)).rows.map(
            ({ row }) => row,
          ),
        )
      expect(stored.join()).toContain('pin-session')
      expectNoPin([...texts, ...stored])
    } finally {
      await client.end()
    }
  })
})
