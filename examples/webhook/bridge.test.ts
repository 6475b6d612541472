import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Webhook } from 'standardwebhooks'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { fakeWebhook, scriptedModel, testApp } from 'oracle-runtime/testing'
import { deliver } from 'oracle-runtime/webhooks'
import { createWallet } from '../../core/testing/wallet.ts'
import { flakyWire, freshDatabase } from '../../test/support/database.ts'
import { openStream } from '../../test/support/event-stream.ts'
import { type FakeAnswer, fakeOpenAi } from '../../test/support/fake-openai.ts'
import { type ServerProcess, startServer } from '../../test/support/process.ts'
import { describeWith } from '../../test/support/services.ts'
import bridge from './bridge.ts'

/** Who asks. */
const asker = await createWallet('somebody with a well')
const { did } = asker
const operator = { authorization: 'Bearer the-operator-of-this-test' }
const answer = 'The well is two metres deep.'

/** What an operator reads of jobs, as far as this test looks at them. */
const jobsOf = z.object({ jobs: z.array(z.object({ state: z.string(), key: z.string() })) })

/** A question as a caller sends it. */
const question = () => ({ id: randomUUID(), did, message: 'How deep is the well?' })
type Question = ReturnType<typeof question>

/** Where the database of a server is: a folder, or PostgreSQL. */
interface Place {
  readonly env: Readonly<Record<string, string>>
  remove(): Promise<void> | void
}

const running: ServerProcess[] = []
const killAll = async () => {
  for (const server of running.splice(0)) await server.end('SIGKILL')
}

/** What a server of this example is killed with: its provider of the model, and the way to whoever gets the answers. */
async function surroundings(first: Promise<never> | FakeAnswer) {
  const stack = new AsyncDisposableStack()
  const receiver = stack.use(await fakeWebhook())
  const wire = stack.adopt(await flakyWire(receiver.url), (open) => open.close())
  const provider = stack.adopt(await fakeOpenAi((_, nth) => (nth === 0 ? first : answer)), (open) =>
    open.close(),
  )
  const env = {
    MODEL: 'openai/fake',
    OPENAI_API_KEY: 'a-key-for-this-test',
    OPENAI_BASE_URL: provider.url,
    ORACLE_MNEMONIC: 'an oracle that answers webhooks',
    OPERATOR_TOKEN: 'the-operator-of-this-test',
    RUN_LEASE_MS: '2000',
    BRIDGE_SECRET: receiver.secret,
    BRIDGE_REPLY_URL: wire.url,
  }
  return { receiver, wire, provider, env, [Symbol.asyncDispose]: () => stack.disposeAsync() }
}
type Surroundings = Awaited<ReturnType<typeof surroundings>>

/** The example as `node server.ts` starts it. */
async function serve({ env }: Surroundings, place: Place) {
  const server = startServer('examples/webhook/server.ts', { ...env, ...place.env })
  running.push(server)
  const url = await server.url
  return {
    url,
    ask: (asked: Question) =>
      deliver(`${url}/bridge`, asked, { id: randomUUID(), secret: env.BRIDGE_SECRET }),
    /** The jobs that are to deliver answers, as an operator sees them. */
    async jobs() {
      const listed = await fetch(`${url}/jobs?plugin=bridge`, { headers: operator })
      return jobsOf.parse(await listed.json()).jobs
    },
    kill: () => server.end('SIGKILL'),
  }
}
type Served = Awaited<ReturnType<typeof serve>>

/** Follows the turn that a question began, as its user does, up to the first words of the answer. */
async function firstWords({ url }: Served): Promise<void> {
  const described = await fetch(`${url}/.well-known/oracle.json`)
  const headers = async () => await asker.headers((await oracle).did)
  const oracle = described.json() as Promise<{ did: string }>
  const get = async (path: string) =>
    (await fetch(url + path, { headers: await headers() })).json() as any // any: the test reads members of the answer
  const { sessions } = await get('/sessions')
  const { run } = await get(`/sessions/${sessions[0].sessionId}/run`)
  const events = await openStream(`${url}/runs/${run.runId}`, await headers())
  await events.until(({ event }) => event === 'message')
  events.cut()
}

/** When a server is killed: how the model begins its first answer, and what there is to wait for. */
interface Moment {
  readonly model: () => Promise<never> | FakeAnswer
  before?(around: Surroundings): void
  reached(around: Surroundings, server: Served): Promise<unknown>
}
const moments: Readonly<Record<string, Moment>> = {
  'as soon as it has answered 202': {
    model: () => answer,
    // Connections are taken, and nothing that is sent arrives.
    before: ({ wire }) => wire.silence(),
    reached: async () => {},
  },
  'before the model answers': {
    model: () => new Promise<never>(() => {}),
    reached: ({ provider }) => expect.poll(() => provider.requests.length).toBe(1),
  },
  'in the middle of the answer': {
    model: () => ({ text: ['The well ', 'is '], then: 'silence' }),
    reached: (_, server) => firstWords(server),
  },
  'after the end of the turn and before the delivery': {
    model: () => answer,
    before: ({ wire }) => wire.silence(),
    reached: (_, server) => expect.poll(() => server.jobs()).toHaveLength(1),
  },
  'between the delivery and its mark': {
    model: () => answer,
    // The receiver reads the answer and says nothing.
    before: ({ receiver }) => receiver.answer('silence'),
    reached: ({ receiver }) => receiver.next(),
  },
}

function answered(placeOf: () => Promise<Place>) {
  it.for(Object.entries(moments))('though it is killed %s', async ([, moment]) => {
    await using around = await surroundings(moment.model())
    const place = await placeOf()
    try {
      const { receiver, wire } = around
      moment.before?.(around)
      const asked = question()
      const first = await serve(around, place)
      expect(await first.ask(asked)).toEqual({ status: 202 })
      await moment.reached(around, first)
      await first.kill()

      await wire.restore()
      const second = await serve(around, place)
      const delivered = await receiver.next()
      expect(delivered).toMatchObject({
        isValid: true,
        status: 204,
        body: { question: asked.id, status: 'finished', text: answer },
      })
      expect(new Set(receiver.received.map(({ id }) => id))).toEqual(new Set([delivered.id]))
      // The question comes again, and is one that was answered.
      expect(await second.ask(asked)).toEqual({ status: 202 })
      await expect.poll(() => second.jobs()).toMatchObject([{ state: 'done', key: delivered.id }])
    } finally {
      await killAll()
      await place.remove()
    }
  })
}

describe('a question is answered by webhook', () => {
  answered(async () => {
    const folder = mkdtempSync(join(tmpdir(), 'bridge-'))
    return {
      env: { DATA_DIR: folder },
      remove: () => rmSync(folder, { recursive: true, force: true }),
    }
  })
})

await describeWith('postgres', 'a question is answered by another replica', (url) => {
  answered(async () => {
    const database = await freshDatabase(url)
    return {
      env: { DATA_DIR: ':memory:', DATABASE_URL: database.url },
      remove: () => database.drop(),
    }
  })
})

describe('the bridge', () => {
  /** The bridge in this process, with a clock, and a question that was signed by another library. */
  async function bridged(said = answer) {
    const receiver = await fakeWebhook()
    const app = await testApp({
      plugins: [bridge],
      model: scriptedModel([said]),
      clock: true,
      env: {
        BRIDGE_SECRET: receiver.secret,
        BRIDGE_REPLY_URL: receiver.url,
        OPERATOR_TOKEN: 'the-operator-of-this-test',
      },
    })
    const jobs = async () => (await app.get('/jobs?plugin=bridge', { headers: operator })).body.jobs
    return {
      receiver,
      app,
      jobs,
      async [Symbol.asyncDispose]() {
        await app.close()
        await receiver.close()
      },
    }
  }
  const signed = (secret: string, body: string, at = new Date()) => ({
    'content-type': 'application/json',
    'webhook-id': 'msg_1',
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': new Webhook(secret).sign('msg_1', at, body),
  })

  it('delivers by growing waits to a receiver that answers 503 five times', async () => {
    await using all = await bridged()
    const { receiver, app, jobs } = all
    receiver.answer(503, 503, 503, 503, 503)
    const body = JSON.stringify(question())
    expect((await app.post('/bridge', body, signed(receiver.secret, body))).status).toBe(202)
    await expect.poll(jobs).toMatchObject([{ state: 'due', attempts: 1 }])
    expect(receiver.received).toHaveLength(1)
    await app.clock.advance('1m')
    expect(receiver.received.map(({ status }) => status)).toEqual([503, 503, 503, 503, 503, 204])
    expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(1)
    expect(receiver.received.every(({ isValid }) => isValid)).toBe(true)
    expect(await jobs()).toMatchObject([{ state: 'done', attempts: 6 }])
  })

  it('gives an answer up at once that the receiver does not want any more', async () => {
    await using all = await bridged()
    const { receiver, app, jobs } = all
    receiver.answer(410)
    const body = JSON.stringify(question())
    expect((await app.post('/bridge', body, signed(receiver.secret, body))).status).toBe(202)
    await expect.poll(jobs).toMatchObject([{ state: 'dead', attempts: 1 }])
    await app.clock.advance('1d')
    expect(receiver.received.map(({ status }) => status)).toEqual([410])
  })

  it('cuts an answer that is longer than a job may be', async () => {
    const long = '\u0001ä😀"'.repeat(30_000)
    await using all = await bridged(long)
    const { receiver, app, jobs } = all
    const body = JSON.stringify(question())
    expect((await app.post('/bridge', body, signed(receiver.secret, body))).status).toBe(202)
    expect(await receiver.next()).toMatchObject({
      isValid: true,
      body: { status: 'finished', text: long.slice(0, 10_000) },
    })
    await expect.poll(jobs).toMatchObject([{ state: 'done' }])
  })

  it('takes nothing that was changed, forged, signed long ago or not signed', async () => {
    await using all = await bridged()
    const { receiver, app, jobs } = all
    const asked = question()
    const body = JSON.stringify(asked)
    const right = signed(receiver.secret, body)
    const forged = signed(`whsec_${Buffer.alloc(32, 7).toString('base64')}`, body)
    const old = signed(receiver.secret, body, new Date(Date.now() - 6 * 60_000))
    const changed = JSON.stringify({ ...asked, message: 'How deep is the wall?' })
    const refused = [
      await app.post('/bridge', changed, right),
      await app.post('/bridge', `${body} `, right),
      await app.post('/bridge', body, forged),
      await app.post('/bridge', body, old),
      await app.post('/bridge', body, { 'content-type': 'application/json' }),
    ]
    expect(refused.map(({ status }) => status)).toEqual([401, 401, 401, 401, 401])
    await app.clock.advance('1h')
    expect(await jobs()).toEqual([])
    expect(receiver.received).toEqual([])
    // The question itself is taken: nothing but the signature was wrong.
    expect((await app.post('/bridge', body, right)).status).toBe(202)
    expect(await receiver.next()).toMatchObject({ body: { question: asked.id, text: answer } })
  })
})
