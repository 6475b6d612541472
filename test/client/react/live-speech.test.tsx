import { expect, it } from 'vitest'
import { fakeBrowser } from '../call/browser.ts'
import { openCaller, patient } from '../call/open-caller.ts'
import { fakeRecognizer, fakeSynthesis, put } from '../call/speech-classes.ts'
import { until } from '../page.ts'

const byBrowser = { CALLS_HEARING: 'browser', CALLS_VOICE: 'none' }

it('asks before the recognizer of the browser may use a server of its maker', async () => {
  const devices = fakeBrowser()
  const recognizer = fakeRecognizer(false)
  const { used, wanted, underWay } = await openCaller(['It is noon.'], byBrowser)
  await until(() => used.now.hearing)
  expect(used.now).toMatchObject({
    hearing: { by: 'browser', where: 'service', name: 'browser' },
    consent: 'browser',
  })
  for (const consent of [undefined, '', 'api.openai.com']) {
    const asked = used.now.callAgent({ ...wanted, ...(consent !== undefined && { consent }) })
    await expect(asked).rejects.toMatchObject({
      ...{ code: 'consent_needed', details: { consent: 'browser' } },
    })
  }
  // Nobody was called, no microphone was opened, and no recognizer made.
  expect(await underWay()).toEqual([])
  expect(devices.tracks).toEqual([])
  expect(recognizer.made).toEqual([])
  await used.now.callAgent({ ...wanted, consent: 'browser' })
  await until(() => used.now.isReady, patient)
  const [made] = recognizer.made
  expect(made).toMatchObject({ isOn: true, lang: 'en', continuous: true, interimResults: true })
  expect(made?.processLocally).toBeUndefined()
  made?.understands('what time', false)
  await until(() => used.now.captions.some(({ isFinal }) => !isFinal), patient)
  made?.understands('What time is it?')
  await until(() => used.now.captions.some(({ text }) => text === 'It is noon.'), patient)
  expect(used.now.captions.map(({ who, text }) => [who, text])).toEqual([
    ['you', 'What time is it?'],
    ['agent', 'It is noon.'],
  ])
  // Muted is muted for the recognizer as well, and it hears on when the browser ends it after a silence.
  await used.now.setMuted(true)
  expect(made?.isOn).toBe(false)
  made?.understands('Nobody should hear this.')
  await used.now.setMuted(false)
  const starts = made?.starts ?? 0
  made?.onend?.()
  expect(made?.starts).toBe(starts + 1)
  made?.onerror?.({ error: 'network' })
  await until(() => used.now.hearing?.by === 'typed')
  expect(used.now.notice).toMatchObject({ code: 'HEARING_FAILED' })
  await used.now.endCall()
  expect(JSON.stringify(used.now.captions)).not.toContain('Nobody')
}, 120_000)

it('asks nobody where the browser hears on the device, and has it hear there alone', async () => {
  fakeBrowser()
  const recognizer = fakeRecognizer(true)
  const { used, wanted } = await openCaller([], byBrowser)
  await until(() => used.now.hearing)
  expect(used.now.hearing).toMatchObject({ by: 'browser', where: 'device' })
  expect(used.now.consent).toBeUndefined()
  await used.now.callAgent({ ...wanted, language: 'fr' })
  await until(() => used.now.isReady, patient)
  expect(recognizer.made[0]).toMatchObject({ processLocally: true, lang: 'fr' })
  await used.now.endCall()
  expect(recognizer.made[0]?.isOn).toBe(false)
}, 120_000)

it('without a microphone no recognizer hears, so nobody is asked', async () => {
  fakeBrowser()
  const recognizer = fakeRecognizer(false)
  const { used, wanted } = await openCaller([], byBrowser)
  await used.now.callAgent({ ...wanted, microphone: false })
  await until(() => used.now.isReady, patient)
  expect(recognizer.made).toEqual([])
  await used.now.endCall()
}, 120_000)

it('a browser without a recognizer has words typed', async () => {
  fakeBrowser()
  put({ SpeechRecognition: undefined, webkitSpeechRecognition: undefined })
  const { used } = await openCaller([], byBrowser)
  await until(() => used.now.hearing)
  expect(used.now.hearing).toEqual({ by: 'typed', where: 'device', name: 'typed words' })
})

it('the browser’s own voice says sentence after sentence, tells how far it is, and gives way to captions', async () => {
  fakeBrowser()
  const voice = fakeSynthesis()
  const { used, wanted } = await openCaller(['One is said. Two is said. Three is read.'], {
    ...{ CALLS_HEARING: 'typed', CALLS_VOICE: 'browser' },
  })
  await until(() => used.now.voice)
  expect(used.now.voice).toMatchObject({ by: 'browser', where: 'device' })
  await used.now.callAgent({ ...wanted, microphone: false })
  await until(() => used.now.isReady, patient)
  used.now.say('Go on.')
  await until(() => voice.said.length === 1, patient)
  expect(voice.said[0]?.text).toBe('One is said.')
  voice.said[0]?.onboundary?.({ charIndex: 4 })
  voice.said[0]?.onend?.()
  await until(() => voice.said.length === 2, patient)
  expect(voice.said[1]?.text).toBe('Two is said.')
  expect(used.now.state).toBe('speaking')
  // A voice that breaks: the rest is read, in its own time.
  voice.said[1]?.onerror?.()
  await until(() => used.now.voice?.name === 'captions')
  await until(() => used.now.state === 'listening', patient)
  expect(voice.said).toHaveLength(2)
  expect(used.now.captions.map(({ text }) => text).join('')).toContain('Three is read.')
  used.now.interrupt()
  await used.now.endCall()
}, 120_000)

it('a browser whose voices send words to its maker has none: the answer is read', async () => {
  fakeBrowser()
  const voice = fakeSynthesis()
  voice.voices = [{ lang: 'en-US', localService: false }]
  const { used } = await openCaller([], { CALLS_HEARING: 'typed', CALLS_VOICE: 'browser' })
  await until(() => used.now.voice)
  expect(used.now.voice).toEqual({ by: 'none', where: 'device', name: 'captions' })
})
