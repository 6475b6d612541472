import { expect, test } from 'vitest'
import { Ordering } from '../media/ordering.ts'
import { Playing } from '../media/playing.ts'
import { argumentsOf } from '../speech/command.ts'
import { WavReader, wavOf } from '../speech/wav.ts'
import { mayBecome, phrasesIn, saysOnly, wordsOf } from '../talking/phrases.ts'
import { Sentences } from '../talking/sentences.ts'
import { spokenText } from '../talking/spoken-text.ts'

const said = (text: string, step: number) => {
  const sentences = new Sentences()
  const pieces = []
  for (let at = 0; at < text.length; at += step)
    pieces.push(...sentences.push(text.slice(at, at + step)))
  return [...pieces, ...sentences.end()]
}

test.each([1, 3, 17, 4_000])('a reply in pieces of %i is said whole and in order', (step) => {
  const texts = [
    'Yes. No? Good!\n\nOn 3.5 km it rains.',
    'word '.repeat(5_000),
    '😀'.repeat(700),
    '. . .',
    'مرحبا. كيف حالك؟',
  ]
  for (const text of texts) {
    const pieces = said(text, step)
    expect(pieces.map((piece) => piece.text).join('')).toBe(text)
    for (const { text: one, from, to } of pieces) expect(text.slice(from, to)).toBe(one)
  }
})

test('the first words of a long sentence are said before it ends', () => {
  const first = new Sentences().push(
    'one two three four five six seven eight nine ten eleven twelve thirteen fourt',
  )
  expect(first.map(({ text }) => text.trim().split(' ').length)).toEqual([12])
})

test('a voice says neither code, nor addresses, nor marks', () => {
  const spoken = (text: string) => spokenText(text, false).text
  expect(spoken('# **Hello** [you](https://x.example), see https://y.example/a?b 😀')).toBe(
    'Hello you, see',
  )
  expect(spoken('Before ```js\nalert(1)\n``` after')).toBe('Before after')
  expect(spokenText('Before ```js', false)).toEqual({ text: 'Before', isCode: true })
  expect(spokenText('x = 1\n``` after', true)).toEqual({ text: 'after', isCode: false })
})

test('packets are put in order, a lost one is given once, repeats and late ones are left out', () => {
  const ordering = new Ordering()
  const heard = [10, 12, 11, 11, 13, 15, 16, 17, 14, 18].flatMap((number) =>
    ordering.push({ number, bytes: Uint8Array.of(number) }),
  )
  expect(heard.map((bytes) => bytes?.[0])).toEqual([10, 11, 12, 13, undefined, 15, 16, 17, 18])
  expect(ordering.push({ number: 30_018, bytes: Uint8Array.of(1) })).toHaveLength(1)
  // A jump begins anew, forwards and backwards: whoever is taken for late is heard no more.
  for (const number of [60_018, 30_018, 60_900, 100])
    expect(ordering.push({ number, bytes: Uint8Array.of(1) }), String(number)).toHaveLength(1)
  expect(ordering.push({ number: 90, bytes: Uint8Array.of(1) })).toEqual([])
  const around = new Ordering()
  expect(
    [65_534, 65_535, 0, 1].flatMap((number) => around.push({ number, bytes: Uint8Array.of(1) })),
  ).toHaveLength(4)
})

test('what is said can be held, goes on from the beginning of its sentence, and is dropped', () => {
  const playing = new Playing()
  let time = 0
  const next = () => playing.next((time += 960))
  playing.add(1, new Int16Array(2_000).fill(7), true)
  playing.add(2, new Int16Array(960).fill(9), true)
  expect(next().pcm?.[0]).toBe(7)
  playing.isHeld = true
  expect(next()).toEqual({})
  playing.goOn()
  expect(playing.place()).toMatchObject({ part: 1, sent: 0, samples: 2_000 })
  expect([next(), next(), next()].map(({ ended }) => ended?.part)).toEqual([
    undefined,
    undefined,
    1,
  ])
  playing.drop()
  expect([next(), playing.isSpeaking]).toEqual([{}, false])
})

test('what a page hears is found by the time in its packet: in an earlier sentence, too, after a gap, and where times begin anew', () => {
  const playing = new Playing()
  let time = 2 ** 32 - 960 * 4
  const times: number[] = []
  const send = (frames: number) => {
    for (let frame = 0; frame < frames; frame++, time = (time + 960) % 2 ** 32) {
      times.push(time)
      playing.next(time)
    }
  }
  playing.add(1, new Int16Array(960 * 5), true)
  playing.add(2, new Int16Array(960 * 3), false)
  send(7)
  send(3) // the voice is late: silence
  playing.add(2, new Int16Array(960 * 6), true)
  send(2)
  expect(playing.place()).toMatchObject({ part: 2, sent: 960 * 5 })
  const heardAt = (frame: number) => playing.place(times[frame])
  expect(heardAt(0)).toMatchObject({ part: 1, sent: 0, samples: 960 * 5, isHeard: true })
  expect(heardAt(4)).toMatchObject({ part: 1, sent: 960 * 4, isWhole: true })
  expect(heardAt(6)).toMatchObject({ part: 2, sent: 960 })
  expect(heardAt(9)).toMatchObject({ part: 2, sent: 960 * 3 })
  expect(heardAt(11)).toMatchObject({ part: 2, sent: 960 * 4, isWhole: true, isEnd: false })
  expect(playing.place(time)).toMatchObject({ part: 2, sent: 960 * 5 })
  expect(playing.place(times[0]! - 960)).toBeUndefined()
  playing.isHeld = true
  send(4)
  playing.goOn()
  send(1)
  expect([heardAt(11)?.sent, heardAt(15)?.sent]).toEqual([960 * 4, 960 * 5])
  expect(heardAt(16)).toMatchObject({ part: 2, sent: 0 })
  playing.drop()
  expect(playing.place(times[6])).toBeUndefined()
})

test('a word of a call becomes an argument only where it is plain', () => {
  const made = (voice: string) =>
    argumentsOf(['x', '-v', '{voice}', '{language}'], { voice, language: 'sw' })
  expect(made('en-us')).toEqual(['-v', 'en-us', 'sw'])
  for (const voice of ['--help', 'a b', 'a;b', '../x', 'x'.repeat(200), ''])
    expect(made(voice)[1]).toBe('sw')
})

test('a WAV file is read in pieces of any size, and what is none is refused', () => {
  const pcm = Int16Array.from({ length: 500 }, (_, i) => i * 60 - 15_000)
  const file = wavOf({ rate: 22_050, pcm })
  for (const step of [1, 7, 44, 1_000]) {
    const reader = new WavReader()
    const read: number[] = []
    for (let at = 0; at < file.length; at += step)
      read.push(...(reader.read(file.subarray(at, at + step))?.pcm ?? []))
    expect(read).toEqual([...pcm])
  }
  expect(() => new WavReader().read(Buffer.from('<html>not found</html>'))).toThrow('no WAV')
})

test('a nod is no interruption, once or several times, in three languages', () => {
  const isNod = (language: string | undefined, text: string) =>
    saysOnly(phrasesIn(language).nods, wordsOf(text))
  const nods = {
    en: 'Mhm.|Uh-huh.|Mm-hmm|mhm mhm|Yeah, yeah.|I see, I see…|OK OK ok|Yes. Right. All right.',
    fr: 'Oui !|oui, oui|D’accord, d’accord.|Ah oui, bien sûr|Mm-hmm|C’est ça.',
    sw: 'Ndiyo|Ndiyo, ndiyo.|Sawa sawa|Ehe, naam|Mhm!',
    de: 'ja ja|Mhm, ja.| OK ',
  }
  for (const [language, texts] of Object.entries(nods))
    for (const text of texts.split('|')) expect([text, isNod(language, text)]).toEqual([text, true])
  expect(isNod(undefined, 'Uh huh, mhm')).toBe(true)
  for (const text of ['Yes, but where?', 'Mhm no', 'see I', 'And yes', 'No no'])
    expect([text, isNod('en', text)]).toEqual([text, false])
  expect(saysOnly(phrasesIn('en').refusals, wordsOf('No, no! Don’t!'))).toBe(true)
  expect(saysOnly(phrasesIn('fr').stops, wordsOf('Stop, stop. Attendez !'))).toBe(true)
})

test('words that are understood so far may still become a nod', () => {
  const { nods } = phrasesIn('en')
  for (const text of ['i', 'uh', 'mhm uh', 'yes, al']) expect(mayBecome(nods, text)).toBe(true)
  for (const text of ['i want', 'uh where', 'see', 'yes but'])
    expect(mayBecome(nods, text)).toBe(false)
})
