import { expect, test } from 'vitest'
import { silent } from '../../../test/support/silent-log.ts'
import type { Voice } from '../speech/port.ts'
import { Speaker } from '../talking/speaker.ts'

/** A voice that makes a tenth of a second of each sentence, and writes down which. */
function tones() {
  const made: string[] = []
  const voice: Voice = {
    ...{ name: 'tones', where: 'server' },
    async *speak(text) {
      made.push(text)
      yield { rate: 48_000, pcm: new Int16Array(4_800).fill(9_000) }
    },
  }
  return { made, voice }
}

/** The sound of a sentence that never comes to its end. */
async function* forever(): AsyncGenerator<{ rate: number; pcm: Int16Array }> {
  yield { rate: 48_000, pcm: new Int16Array(960) }
  await new Promise(() => {})
}

/** A speaker whose sound is played at once. */
function speakerWith(voice: Voice | undefined) {
  const heard: string[] = []
  let silences = 0
  const speaker: Speaker = new Speaker({
    ...{ voice, words: {}, isByPage: false, log: silent },
    play({ part, isLast }) {
      if (!isLast) return
      const played = { sent: 4_800, samples: 4_800, isWhole: true, isEnd: true }
      setImmediate(() => speaker.played({ type: 'played', call: 'a', part, ...played }))
    },
    ...{ tell() {}, sayByPage() {}, onBegun() {}, onFailed() {} },
    onHeard: ({ text }) => void heard.push(text),
    onSilent: () => void silences++,
  })
  const say = (...texts: string[]) => {
    for (const text of texts) speaker.say({ runId: 'r', from: 0, to: text.length, text })
  }
  return { speaker, heard, say, silences: () => silences }
}

test.each([
  ['a last sentence without a word', ['Here it is.', '']],
  ['many without a word, before and after one', ['', '…', 'Here it is.', '', '—', '']],
  ['no word at all', ['', '', '', '']],
  ['words between', ['One.', '', 'Two.', '', '', 'Three.']],
])('%s: all of it is over, and the speaker is silent', async (_, texts) => {
  const { made, voice } = tones()
  const { speaker, heard, say, silences } = speakerWith(voice)
  say(...texts)
  await expect.poll(() => speaker.isBusy).toBe(false)
  expect(heard).toEqual(texts)
  expect(made).toEqual(texts.filter((text) => /\w/.test(text)))
  expect(silences()).toBeGreaterThan(0)
})

test('a page that hears an earlier sentence yet has not heard the one that is being sent', async () => {
  const { voice } = tones()
  const { speaker, heard, say } = speakerWith({
    ...voice,
    speak: (text, options) => (text === 'Two words.' ? forever() : voice.speak(text, options)),
  })
  say('One word.', 'Two words.')
  await expect.poll(() => heard).toEqual(['One word.'])
  const place = { samples: 4_800, isWhole: true, isHeard: true }
  expect(speaker.drop({ ...place, part: 1, sent: 2_400 })).toEqual({ runId: 'r', chars: 4 })
  expect(speaker.drop({ ...place, part: 1, sent: 2_400 })).toBeUndefined()
})

test('where a page stood as it fell silent counts until it goes on, and what it tells besides only at once', async () => {
  const { speaker, say } = speakerWith({ ...tones().voice, speak: forever })
  say('Some words.')
  speaker.standsAt(7)
  expect(speaker.stands).toEqual({ heard: 7 })
  speaker.hold()
  expect(speaker.stands).toEqual({})
  speaker.standsAt(undefined)
  speaker.standsAt(8)
  speaker.standsAt(9)
  expect(speaker.stands).toEqual({ heard: 8 })
  speaker.goOn()
  speaker.standsAt(10)
  await expect.poll(() => speaker.stands).toEqual({})
})

test('without a voice a long answer is over once it is read, and not only its first sentence', async () => {
  const { speaker, heard, say } = speakerWith(undefined)
  const texts = Array.from({ length: 200 }, (_, i) => `Sentence ${i}.`)
  say(...texts)
  await expect.poll(() => speaker.isBusy).toBe(false)
  expect(heard).toEqual(texts)
})
