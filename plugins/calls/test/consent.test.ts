import { expect, onTestFinished, test } from 'vitest'
import { definePlugin } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { call, Page } from '../../../test/support/call-page.ts'
import calls from '../index.ts'

const env = { NODE_ENV: 'test', CALLS_VOICE: 'none', CALLS_HEARING: 'typed' }
const patient = { timeout: 20_000, interval: 20 }

async function start(
  more: Record<string, string>,
  plugins = [calls] as Parameters<typeof testApp>[0]['plugins'],
) {
  const app = await testApp({ plugins, model: scriptedModel([]), env: { ...env, ...more } })
  onTestFinished(() => app.close())
  const user = await app.user()
  const { sessionId } = (await user.post('/sessions', {})).body
  const post = async (body: Record<string, unknown>) =>
    user.post('/calls', {
      ...{ sessionId, callType: 'audio', sdp: await new Page().offer(), ...body },
    })
  return { app, user, post, sessionId: sessionId as string }
}

test('a call whose sound goes to a service needs consent to that service by its name', async () => {
  const { user, post, sessionId } = await start({
    CALLS_HEARING: 'openai',
    CALLS_SPEECH_KEY: 'a-key',
  })
  const about = (await user.get('/calls')).body
  expect(about.hearing).toEqual({ by: 'openai', where: 'service', name: 'api.openai.com' })
  expect(about.consent).toBe('api.openai.com')
  for (const consent of [undefined, '', 'browser', 'api.example.com', 'openai']) {
    const refused = await post({ consent })
    expect(refused).toMatchObject({
      status: 409,
      body: { code: 'CONSENT_NEEDED', details: { consent: 'api.openai.com' } },
    })
    expect(refused.body.message).toContain('api.openai.com')
  }
  const { page, callId } = await call(user, sessionId, { consent: 'browser, api.openai.com' })
  page.send({ type: 'bye' })
  const state = async () => (await user.get(`/calls/${callId}`)).body.callStatus
  await expect.poll(state, patient).toBe('ended')
})

test('a call that replaces another carries its consent over', async () => {
  const { user, post, sessionId } = await start({
    CALLS_HEARING: 'openai',
    CALLS_SPEECH_KEY: 'a-key',
  })
  const { callId } = await call(user, sessionId, { consent: 'api.openai.com' })
  const again = await post({ replaces: callId })
  expect(again.status).toBe(201)
  expect((await user.get(`/calls/${callId}`)).body.endedBy).toBe('replaced')
})

test('without a service nothing is to be consented to', async () => {
  const { user, post } = await start({ OPENAI_API_KEY: 'sk-model' })
  expect((await user.get('/calls')).body.consent).toBeUndefined()
  expect((await post({})).status).toBe(201)
})

test('a model key alone sends no sound to anybody: hearing and voice stay as without it', async () => {
  const about = async (more: Record<string, string>) => {
    const app = await testApp({
      plugins: [calls],
      model: scriptedModel([]),
      env: { NODE_ENV: 'test', ...more },
    })
    onTestFinished(() => app.close())
    const { hearing, voice, consent } = (await (await app.user()).get('/calls')).body
    return { hearing, voice, consent }
  }
  const keyed = await about({ OPENAI_API_KEY: 'sk-model' })
  expect(keyed).toEqual(await about({}))
  expect(keyed.consent).toBeUndefined()
  expect([keyed.hearing.by, keyed.hearing.where]).toEqual(['browser', 'device'])
  expect(keyed.voice.where).not.toBe('service')
})

test.each([
  [{ CALLS_HEARING: 'openai' }, 'CALLS_SPEECH_KEY'],
  [{ CALLS_VOICE: 'openai' }, 'CALLS_SPEECH_KEY'],
  [{ CALLS_HEARING: 'command' }, 'CALLS_HEARING_COMMAND'],
])('what is missing for %o is told at boot', async (more, variable) => {
  const booted = testApp({ plugins: [calls], model: scriptedModel([]), env: { ...env, ...more } })
  const told = await booted.then(
    async (app) => {
      const { report } = app
      await app.close()
      return JSON.stringify(report)
    },
    (error: unknown) => String(error),
  )
  expect(told).toContain(variable)
})

test('another plugin brings what hears and speaks, and the variables choose it by name', async () => {
  const parrot = definePlugin({
    name: 'parrot',
    summary: 'Speaks.',
    visibility: 'silent',
    requires: [calls],
    setup({ plugins }) {
      plugins.calls.speech({
        voice: {
          name: 'parrot',
          where: 'service',
          async *speak() {
            yield { rate: 48_000, pcm: new Int16Array(48_000).fill(9_000) }
          },
        },
      })
    },
  })
  const { app, user, sessionId } = await start({ CALLS_VOICE: 'parrot' }, [calls, parrot])
  await expect.poll(async () => (await user.get('/calls')).status, patient).toBe(200)
  expect((await user.get('/calls')).body).toMatchObject({
    voice: { by: 'parrot', where: 'service', name: 'parrot' },
    consent: 'parrot',
  })
  const { page } = await call(user, sessionId, { consent: 'parrot' })
  page.send({ type: 'say', id: 'a', text: 'Hello' })
  await expect.poll(() => page.isHeard(), patient).toBe(true)
  const unknown = await start({ CALLS_HEARING: 'nobody' })
  const health = async () => JSON.stringify((await unknown.app.get('/health')).body)
  await expect.poll(health, patient).toContain('degraded')
  expect((await unknown.user.get('/calls')).status).toBe(503)
  expect(app.log.join('')).not.toContain('CALLS_VOICE is')
})
