import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { testApp, type TestApp } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import ussd from '../index.ts'

const env = {
  USSD_ADAPTERS: 'africas-talking, hubtel, arkesel, nalo',
  USSD_RATE_LIMIT_PER_MINUTE: '1000000',
  PIN_ENCRYPTION_KEY: 'ab'.repeat(32),
}

async function start(more: Record<string, string> = {}): Promise<TestApp> {
  const app = await testApp({ plugins: [ussd], env: { ...env, ...more } })
  onTestFinished(() => app.close())
  return app
}

const number = '233546330000'
/** Ends the ids of sessions, because tests share a database. */
let call = ''
beforeEach(() => void (call = randomUUID().slice(0, 6)))

/**
 * A session as each aggregator's public documentation shows its requests: the fields, their spelling and the types of
 * their values. `inputs` are what the person typed; each request has what this aggregator would send at that step.
 */
const recorded: Record<string, (inputs: readonly string[]) => Body> = {
  'africas-talking': (inputs) =>
    new URLSearchParams({
      sessionId: `ATUid_8c6f${call}`,
      serviceCode: '*384*1#',
      phoneNumber: `+${number}`,
      networkCode: '62001',
      text: inputs.join('*'),
    }),
  hubtel: (inputs) => ({
    Type: inputs.length === 0 ? 'Initiation' : 'Response',
    Mobile: number,
    SessionId: `3c796dac28174f739de4262d08${call}`,
    ServiceCode: '713',
    Message: inputs.at(-1) ?? '*713#',
    Operator: 'mtn',
    Sequence: inputs.length + 1,
    ClientState: '',
    Platform: 'USSD',
  }),
  arkesel: (inputs) => ({
    sessionID: `2005506191${call}`,
    userID: 'USSD_DOCUMENTATION',
    newSession: inputs.length === 0,
    msisdn: number,
    userData: inputs.at(-1) ?? '*928*1#',
    network: 'MTN',
  }),
  nalo: (inputs) => ({
    USERID: 'NALOTest',
    MSISDN: number,
    USERDATA: inputs.at(-1) ?? '*920*1#',
    MSGTYPE: inputs.length === 0,
    NETWORK: 'MTN',
    SESSIONID: `16590115252${call}`,
  }),
}
type Body = URLSearchParams | Record<string, unknown>

const form = { 'content-type': 'application/x-www-form-urlencoded' }

async function send(app: TestApp, name: string, body: Body) {
  const answer =
    body instanceof URLSearchParams
      ? await app.post(`/api/ussd/${name}`, body.toString(), form)
      : await app.post(`/api/ussd/${name}`, body)
  return answer
}

/** The screen in an answer, and whether the session goes on, whatever the form of the answer. */
function screenIn(body: unknown): { text: string; goesOn: boolean } {
  if (typeof body === 'string') return { text: body.slice(4), goesOn: body.startsWith('CON ') }
  const { Message, Type, message, continueSession, MSG, MSGTYPE } = body as Record<string, unknown>
  return {
    text: String(Message ?? message ?? MSG),
    goesOn: Type === 'response' || continueSession === true || MSGTYPE === true,
  }
}

const walk = ['1', '1', '0', '0', '*']

await onEachDatabase('the bodies of four aggregators', ({ databaseUrl }) => {
  const where: Record<string, string> =
    databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }

  it('drive the same menu to the same screens', async () => {
    const seen = new Map<string, unknown[]>()
    for (const [name, request] of Object.entries(recorded)) {
      const app = await start(where)
      const screens: unknown[] = []
      for (let step = 0; step <= walk.length; step++) {
        const { status, body } = await send(app, name, request(walk.slice(0, step)))
        expect(status, name).toBe(200)
        screens.push(screenIn(body))
      }
      seen.set(name, screens)
    }
    const [first, ...others] = [...seen.values()]
    expect(first?.[0]).toMatchObject({ text: expect.stringMatching(/^Welcome/), goesOn: true })
    expect(new Set(first?.map((screen) => JSON.stringify(screen))).size).toBeGreaterThan(2)
    expect(first?.at(-1)).toMatchObject({ goesOn: false })
    for (const screens of others) expect(screens).toEqual(first)
  })

  it('tell network and operator to the record, and end a session when the caller hangs up', async () => {
    const app = await start(where)
    await send(app, 'hubtel', recorded.hubtel!([]))
    const id = `3c796dac28174f739de4262d08${call}`
    const record = await app.get(`/api/ussd/debug/${id}`)
    expect(record.body.debugInfo.context).toMatchObject({
      phoneNumber: `+${number}`,
      operator: 'mtn',
    })
    await send(app, 'africas-talking', recorded['africas-talking']!([]))
    const other = await app.get(`/api/ussd/debug/ATUid_8c6f${call}`)
    expect(other.body.debugInfo.context).toMatchObject({ networkCode: '62001' })
    const release = { ...recorded.hubtel!([]), Type: 'Release', Sequence: 2 }
    expect((await send(app, 'hubtel', { ...release, Mobile: '233546339999' })).status).toBe(204)
    expect((await app.get(`/api/ussd/debug/${id}`)).status).toBe(200)
    expect((await send(app, 'hubtel', release)).status).toBe(204)
    expect((await app.get(`/api/ussd/debug/${id}`)).status).toBe(404)
    // The fields of the notification at the end, which has no text.
    const ended = new URLSearchParams({
      date: '2026-11-20 10:00:00',
      sessionId: `ATUid_8c6f${call}`,
      serviceCode: '*384*1#',
      networkCode: '62001',
      phoneNumber: `+${number}`,
      status: 'Success',
      cost: 'KES 1.00',
      durationInMillis: '12000',
      hopsCount: '1',
      input: '',
      lastAppResponse: 'CON Welcome',
    })
    expect((await send(app, 'africas-talking', ended)).status).toBe(204)
    const { activeSessions } = (await app.get('/api/ussd/sessions')).body
    expect(activeSessions.filter((id: string) => id.endsWith(call))).toEqual([])
  })
})

describe('requests of an aggregator', () => {
  it('that come twice are one input where the aggregator numbers them', async () => {
    const app = await start()
    await send(app, 'hubtel', recorded.hubtel!([]))
    const first = await send(app, 'hubtel', recorded.hubtel!(['1']))
    expect((await send(app, 'hubtel', recorded.hubtel!(['1']))).body).toEqual(first.body)
    const next = await send(app, 'hubtel', recorded.hubtel!(['1', '1']))
    expect(next.body.Message).not.toBe(first.body.Message)
    // A late copy of an earlier request changes nothing.
    expect((await send(app, 'hubtel', recorded.hubtel!(['1']))).body).toEqual(next.body)
  })

  it('of the wrong adapter are told which field is missed, in the answer and once in the log', async () => {
    const app = await start()
    for (let nth = 0; nth < 3; nth++) {
      const wrong = await send(app, 'hubtel', recorded.arkesel!([]))
      expect(wrong.status).toBe(400)
      expect(wrong.body.message).toBe(
        'The adapter hubtel misses the field "SessionId" in a request that has ' +
          'sessionID, userID, newSession, msisdn, userData, network.',
      )
    }
    expect(app.log.filter((line) => line.includes('misses the field "SessionId"'))).toHaveLength(1)
    expect(app.log.join()).not.toContain(number)
  })

  it('with values that cannot be are answered in the form of the aggregator', async () => {
    const app = await start()
    const bad = await send(app, 'arkesel', { ...recorded.arkesel!([]), msisdn: '0712' })
    expect(bad).toMatchObject({
      status: 200,
      body: {
        sessionID: `2005506191${call}`,
        message: 'Invalid input. Please try again.',
        continueSession: false,
      },
    })
    const long = new URLSearchParams(recorded['africas-talking']!([]) as URLSearchParams)
    long.set('text', '1'.repeat(183))
    expect((await send(app, 'africas-talking', long)).body).toBe(
      'END Invalid input. Please try again.',
    )
    expect((await send(app, 'nalo', { ...recorded.nalo!([]), MSISDN: { a: 1 } })).status).toBe(400)
  })

  it('may be described by the operator in a file, whose faults stop the boot', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'adapter-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const file = join(folder, 'own.json')
    const own = {
      name: 'own',
      fields: { sessionId: 'session_id', phoneNumber: 'mobile_number', text: 'message' },
      text: 'last',
      reply: { say: { screen: true }, more: { continues: 1, ends: 0 } },
    }
    writeFileSync(file, JSON.stringify(own))
    const app = await start({ USSD_ADAPTERS: file })
    const { body } = await send(app, 'own', {
      session_id: 7,
      mobile_number: 254711000111,
      message: '',
    })
    expect(body).toMatchObject({ say: expect.stringMatching(/^Welcome/), more: 1 })
    expect((await send(app, 'hubtel', {})).status).toBe(404)
    writeFileSync(file, JSON.stringify({ ...own, text: 'all' }))
    await expect(start({ USSD_ADAPTERS: file })).rejects.toThrow('USSD_ADAPTERS')
    await expect(start({ USSD_ADAPTERS: 'hubtl' })).rejects.toThrow('hubtl')
    await expect(start({ USSD_ADAPTERS: 'hubtel,hubtel' })).rejects.toThrow('two adapters')
  })
})

it('every address of the gateway takes 100 requests a minute from one address', async () => {
  const app = await testApp({ plugins: [ussd], env: { USSD_ADAPTERS: 'nalo' } })
  onTestFinished(() => app.close())
  const asks: [string, () => Promise<{ status: number }>][] = [
    ['nalo', () => send(app, 'nalo', recorded.nalo!([]))],
    ...['sessions', 'metrics', 'debug/nobody'].map(
      (path) =>
        [path, () => app.get(`/api/ussd/${path}`)] as [string, () => Promise<{ status: number }>],
    ),
  ]
  for (const [name, ask] of asks) {
    const seen = new Set<number>()
    for (let nth = 0; nth < 100; nth++) seen.add((await ask()).status)
    expect(seen, name).not.toContain(429)
    expect((await ask()).status, name).toBe(429)
  }
})
