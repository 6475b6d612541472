import { expect, onTestFinished, test } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import { beeps } from '../../../test/support/calling-voice.ts'
import { call, type Page } from '../../../test/support/call-page.ts'
import { describeWith } from '../../../test/support/services.ts'
import { type Illness, illnesses, SpeechServer } from '../../../test/support/speech-server.ts'
import calls from '../index.ts'

const patient = { timeout: 60_000, interval: 20 }

/** A call whose sound goes to a speech service, of which the person knows. */
async function start(env: Record<string, string>, answers: number) {
  const service = await SpeechServer.start()
  const app = await testApp({
    plugins: [calls],
    model: scriptedModel(Array.from({ length: answers }, (_, i) => `Answer ${i}.`)),
    fetch: globalThis.fetch,
    env: {
      ...{ NODE_ENV: 'test', CALLS_SPEECH_URL: service.url, CALLS_SPEECH_KEY: 'secret-key' },
      ...env,
    },
  })
  onTestFinished(() => app.close())
  const user = await app.user()
  const { sessionId } = (await user.post('/sessions', {})).body
  const { page, callId } = await call(user, sessionId, { consent: service.host })
  const health = async () => {
    const { body } = await app.get('/health')
    return { status: body.status, text: JSON.stringify(body) }
  }
  const isAlive = async () =>
    expect((await user.get(`/calls/${callId}`)).body.callStatus).toBe('active')
  return { app, service, page, health, isAlive }
}

const isListening = (page: Page) =>
  expect.poll(() => page.of('state').at(-1)?.state, patient).toBe('listening')
/** What the person reads and hears tells nothing of the service’s own words, of keys or of the insides. */
const tellsNoSecret = (page: Page) =>
  expect(JSON.stringify(page.frames)).not.toMatch(/secret|\b(401|429|500)\b|at .*\.ts|fetch failed/)

await describeWith(
  'espeak',
  'a service that hears, and is unwell in seven ways one after the other',
  () => {
    test('the person is told aloud each time, and the next words are understood', async () => {
      const env = {
        ...{ CALLS_HEARING: 'openai', CALLS_VOICE: 'command', CALLS_VOICE_COMMAND: beeps() },
      }
      const { app, service, page, health, isAlive } = await start(env, illnesses.length)
      let notices = 0
      let answers = 0
      for (const illness of illnesses) {
        service.illness = illness
        const [beeped, asked] = [page.beeps, service.heard.length]
        await page.speak('Please tell me what time it is.', 1_200)
        await expect.poll(() => page.of('notice').length, patient).toBe(++notices)
        expect(page.of('notice').at(-1), illness).toEqual({
          ...{ type: 'notice', code: 'HEARING_FAILED' },
          text: 'I can hear you but cannot understand speech right now; please type.',
        })
        // Aloud, too; and what asking again may help was asked once more.
        await expect.poll(() => page.beeps, patient).toBeGreaterThan(beeped + 3)
        expect(service.heard.length - asked, illness).toBeGreaterThanOrEqual(
          illness === '401' ? 1 : 2,
        )
        await isListening(page)
        const unwell = await health()
        expect(unwell.status).toBe('degraded')
        expect(unwell.text).toContain(`The hearing of calls (${service.host}) failed last time`)
        service.illness = undefined
        await page.speak('Please tell me what time it is.', 1_200)
        await expect.poll(() => page.said, patient).toContain(`Answer ${answers++}.`)
        await isListening(page)
        expect((await health()).status).toBe('ok')
        await isAlive()
      }
      expect(page.of('notice')).toHaveLength(illnesses.length)
      tellsNoSecret(page)
      expect(app.log.join('\n')).not.toContain('secret-key')
    }, 300_000)
  },
)

test('a service that speaks, and is unwell in seven ways: the answer is read, and the next one is heard', async () => {
  const env = { CALLS_HEARING: 'typed', CALLS_VOICE: 'openai' }
  const { service, page, health, isAlive } = await start(env, illnesses.length * 2)
  let answers = 0
  const ask = async () => {
    page.send({ type: 'say', id: `say-${answers}`, text: 'And?' })
    await expect.poll(() => page.said, patient).toContain(`Answer ${answers}.`)
    answers++
  }
  let notices = 0
  for (const illness of illnesses) {
    service.illness = illness
    const asked = service.spoken.length
    await ask()
    // An answer that ends early, in an orderly way, is a short sentence and no fault.
    const isFault = illness !== 'half a stream'
    if (isFault) {
      await expect.poll(() => page.of('notice').length, patient).toBe(++notices)
      expect(page.of('notice').at(-1), illness).toEqual({
        ...{ type: 'notice', code: 'VOICE_FAILED' },
        text: 'The voice is not there just now; please read along.',
      })
      // What nobody has heard a sound of is asked for once more.
      expect(service.spoken.length - asked, illness).toBe(hasBegun(illness) ? 1 : 2)
    }
    await isListening(page)
    const { status, text } = await health()
    expect(status, illness).toBe(isFault ? 'degraded' : 'ok')
    if (isFault) expect(text).toContain(`The voice of calls (${service.host}) failed last time`)
    service.illness = undefined
    const from = page.levels.length
    await ask()
    const loud = () => page.levels.slice(from).filter(({ peak }) => peak > 5_000).length
    // The tone of a second, whole.
    await expect.poll(loud, patient).toBeGreaterThan(40)
    await isListening(page)
    expect((await health()).status).toBe('ok')
    await isAlive()
  }
  tellsNoSecret(page)
}, 300_000)

const hasBegun = (illness: Illness) => illness === 'dead in the middle'
