import { verify } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import { onPostgres, type Where } from '../../../test/support/each-database.ts'
import { describeWith, isCommand } from '../../../test/support/services.ts'
import calls from '../index.ts'
import { answeredFingerprint, readOffer } from '../signalling/sdp.ts'
import { provenText } from '../signalling/proof.ts'
import { call, Page } from '../../../test/support/call-page.ts'

const patient = { timeout: 20_000, interval: 20 }
const long = Array.from(
  { length: 40 },
  (_, i) => `This is sentence number ${i + 1} of the answer.`,
).join(' ')

const suite = (where: Where) => {
  const start = async (steps: readonly ScriptedStep[], env: Record<string, string> = {}) => {
    const app = await testApp({
      plugins: [calls],
      model: scriptedModel(steps),
      env: {
        NODE_ENV: 'test',
        CALLS_VOICE: 'command',
        CALLS_VOICE_COMMAND: '["espeak-ng","--stdin","--stdout"]',
        ...(where.databaseUrl && { DATABASE_URL: where.databaseUrl }),
        ...env,
      },
    })
    onTestFinished(() => app.close())
    const user = await app.user()
    const { sessionId } = (await user.post('/sessions', {})).body
    return { app, user, sessionId: sessionId as string }
  }

  test('typed words are answered aloud, and stand in the history', async () => {
    const { user, sessionId } = await start(['It is sunny in Nairobi.'])
    const { page, callId } = await call(user, sessionId)
    await expect.poll(() => page.of('ready'), patient).toMatchObject([{ callId, voice: 'command' }])
    page.send({ type: 'say', id: 'a', text: 'How is the weather?' })
    await expect.poll(() => page.isHeard(), patient).toBe(true)
    await expect.poll(() => page.said, patient).toBe('It is sunny in Nairobi.')
    await expect.poll(() => page.of('state').at(-1)?.state, patient).toBe('listening')
    const { messages } = (await user.get(`/messages/${sessionId}`)).body
    expect(JSON.stringify(messages)).toContain('How is the weather?')
    const ended = await user.delete(`/calls/${callId}`)
    expect(ended.body).toMatchObject({ callStatus: 'ended', endedBy: 'user', callId })
    expect((await user.delete(`/calls/${callId}`)).body).toEqual(ended.body)
  })

  test('who speaks over the answer is listened to: the rest is said and kept nowhere', async () => {
    const { user, sessionId } = await start([long, 'Good.'])
    const { page } = await call(user, sessionId)
    page.send({ type: 'say', id: 'a', text: 'Tell me everything.' })
    // A sentence and a half are heard before somebody speaks.
    await expect
      .poll(() => page.levels.filter(({ peak }) => peak > 500).length, patient)
      .toBeGreaterThan(150)
    await page.speak('Please stop now, I would like to ask you something else.', 1_000)
    await expect.poll(() => page.isHeard(), patient).toBe(false)
    page.send({ type: 'say', id: 'b', text: 'And now?' })
    await expect.poll(() => page.said.endsWith('Good.'), patient).toBe(true)
    const { messages } = (await user.get(`/messages/${sessionId}`)).body
    expect(JSON.stringify(messages)).not.toContain('number 40')
    const reply = messages.find(({ cut }: { cut?: boolean }) => cut)
    expect(reply?.content).toMatch(/^This is sentence number 1 of the answer\. This/)
    expect(long.startsWith(reply.content)).toBe(true)
    expect(reply.content.length).toBeLessThan(200)
  })

  test('the answer is proven by the key of the oracle', async () => {
    const { app, user, sessionId } = await start([])
    const page = new Page()
    const sdp = await page.offer()
    const { body } = await user.post('/calls', { sessionId, callType: 'audio', sdp })
    const text = provenText({
      callId: body.callId,
      sessionId,
      offered: readOffer(sdp).fingerprint,
      answered: answeredFingerprint(body.sdp),
    })
    expect(body.proof.did).toBe(app.oracleDid)
    expect(await isSigned(body.proof, text)).toBe(true)
    expect(await isSigned(body.proof, `${text}x`)).toBe(false)
  })

  test('a session that is deleted ends its call', async () => {
    const { user, sessionId } = await start([])
    const { page, callId } = await call(user, sessionId)
    expect((await user.delete(`/sessions/${sessionId}`)).status).toBeLessThan(300)
    await expect.poll(() => page.of('ended'), patient).toEqual([{ type: 'ended', by: 'session' }])
    const ended = async () => (await user.get(`/calls/${callId}`)).body.endedBy
    await expect.poll(ended, patient).toBe('session')
  })

  test('the agent hangs up behind its last words', async () => {
    const tools: string[][] = []
    const hangUp: ScriptedStep = (request) => {
      tools.push(request.tools.map(({ name }) => name))
      return { call: 'end_call', args: {} }
    }
    const { user, sessionId } = await start([hangUp, 'Goodbye, Amina.'])
    const { page, callId } = await call(user, sessionId)
    page.send({ type: 'say', id: 'a', text: 'Goodbye!' })
    const state = async () => (await user.get(`/calls/${callId}`)).body
    await expect.poll(state, patient).toMatchObject({ callStatus: 'ended', endedBy: 'agent' })
    expect(page.said).toBe('Goodbye, Amina.')
    expect(tools[0]).toContain('end_call')
    // A call without a picture has no camera to look through.
    expect(tools[0]).not.toContain('look_at_camera')
  })

  test('one call at a time, and none of another', async () => {
    const { app, user, sessionId } = await start([])
    const { callId } = await call(user, sessionId)
    const sdp = await new Page().offer()
    const second = await user.post('/calls', { sessionId, callType: 'audio', sdp })
    expect(second).toMatchObject({
      status: 409,
      body: { code: 'CALL_ACTIVE', details: { callId } },
    })
    const stranger = await app.user()
    expect((await stranger.get(`/calls/${callId}`)).status).toBe(404)
    expect((await stranger.delete(`/calls/${callId}`)).status).toBe(404)
    const foreign = await stranger.post('/calls', { sessionId, callType: 'audio', sdp })
    expect(foreign.status).toBe(404)
  })
}

await describeWith('espeak', 'a call, on SQLite', () => suite({}))
if (process.env.REQUIRE_ALL || isCommand('espeak-ng'))
  await onPostgres('a call, on PostgreSQL', suite)

/** Whether the proof of a did:key signs the text. */
async function isSigned({ key, signature }: { key: string; signature: string }, text: string) {
  const { base58btc } = await import('multiformats/bases/base58')
  const raw = base58btc.decode(key.slice('did:key:'.length)).subarray(2)
  const der = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), raw])
  const publicKey = { key: der, format: 'der', type: 'spki' } as const
  return verify(null, Buffer.from(text), publicKey, Buffer.from(signature, 'base64url'))
}
