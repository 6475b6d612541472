import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { RuntimeError } from '#core'
import { scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'

await onEachDatabase('a streamed message with an Idempotency-Key', ({ databaseUrl }) => {
  /** A user's session, whose model takes these steps and then answers in words. */
  async function conversation(...steps: readonly ScriptedStep[]) {
    const model = scriptedModel([...steps, ...Array.from({ length: 9 }, (_, n) => `Answer ${n}`)])
    const env = databaseUrl ? { DATABASE_URL: databaseUrl } : {}
    const app = await testApp({ plugins: [], model, env })
    onTestFinished(() => app.close())
    const user = await app.user()
    const open = async () => (await user.post('/sessions', {})).body.sessionId as string
    const sessionId = await open()
    const key = randomUUID()
    const send = (message: object | string, headers: object = {}, to = sessionId, by = user) =>
      by.post(`/messages/${to}`, typeof message === 'string' ? { message } : message, {
        'Idempotency-Key': key,
        ...headers,
      })
    const words = async () =>
      (await user.get(`/messages/${sessionId}`)).body.messages.map(
        ({ content }: { content: string }) => content,
      )
    return { app, user, sessionId, model, open, send, words }
  }
  const runOf = ({ headers }: { headers: Headers }) => headers.get('x-run-id')

  test('begins one turn, whose events a repeat gets again', async () => {
    const { send, words, model } = await conversation()
    const first = await send('Hello')
    const again = await send('Hello')
    expect([first.status, again.status]).toEqual([200, 200])
    expect(runOf(again)).toBe(runOf(first))
    expect(again.body).toBe(first.body)
    expect(again.body).toContain('event: done')
    const replayed = [first, again].map(({ headers }) => headers.get('idempotency-replayed'))
    expect(replayed).toEqual([null, 'true'])
    expect(model.requests).toHaveLength(1)
    expect(await words()).toEqual(['Hello', 'Answer 0'])
  })

  test('is refused with other words, and in another session', async () => {
    const { user, send, words, open } = await conversation()
    const first = await send('Hello')
    const mismatch = { status: 422, body: { code: 'IDEMPOTENCY_MISMATCH' } }
    expect(await send('Goodbye')).toMatchObject(mismatch)
    expect(await send('Hello', {}, await open())).toMatchObject(mismatch)
    const begun = randomUUID()
    expect(await send({ message: 'Hello', newSession: true }, {}, begun)).toMatchObject(mismatch)
    expect((await user.get(`/messages/${begun}`)).status).toBe(404)
    // The key is still that of the first message.
    expect(runOf(await send('Hello'))).toBe(runOf(first))
    expect(await words()).toEqual(['Hello', 'Answer 0'])
  })

  test('counts for its user alone, and goes by its requestId where it has one', async () => {
    const { app, send, words } = await conversation()
    const first = await send('Hello')
    const other = await app.user()
    const theirs = (await other.post('/sessions', {})).body.sessionId
    const foreign = await send('Hello', {}, theirs, other)
    expect(foreign.status).toBe(200)
    expect(runOf(foreign)).not.toBe(runOf(first))
    const named = await send({ message: 'Hello', requestId: randomUUID() })
    expect(runOf(named)).not.toBe(runOf(first))
    expect(await words()).toHaveLength(4)
  })

  test('finds the first turn while that is under way', async () => {
    let goOn = () => {}
    const held = new Promise<void>((resolve) => void (goOn = resolve))
    const { send, user, sessionId, words } = await conversation(async () => {
      await held
      return 'At last.'
    })
    const first = send('Hello')
    const isRunning = async () => (await user.get(`/sessions/${sessionId}/run`)).body.run !== null
    await expect.poll(isRunning).toBe(true)
    const repeat = (async () => {
      // While the first request makes its stream, a repeat is told to come back.
      for (;;) {
        const again = await send('Hello')
        if (again.status !== 409) return again
      }
    })()
    setTimeout(goOn, 400)
    expect(runOf(await repeat)).toBe(runOf(await first))
    expect((await repeat).body).toContain('"status":"finished"')
    expect(await words()).toEqual(['Hello', 'At last.'])
  })

  test('that failed before its stream leaves the key to a repeat', async () => {
    const { send, model } = await conversation(new RuntimeError('MODEL_UNAVAILABLE', 'Not now.'))
    const first = await send('Hello')
    expect(first.status).toBeGreaterThanOrEqual(500)
    const again = await send('Hello')
    expect(again.status).toBe(200)
    expect(again.body).toContain('"status":"finished"')
    expect(model.requests).toHaveLength(2)
  })
})
