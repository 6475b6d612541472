import { setTimeout as rest } from 'node:timers/promises'
import { wavOf } from '../../plugins/calls/speech/wav.ts'

// A voice for tests, as a program: each word is a tone of 200 ms and a pause of 100 ms, so that whoever listens can count the
// words. With `--live` the sound comes no faster than it is heard, as that of a slow service does. With `--soft` the pause is
// no silence but a soft tone, so that a silence is one that somebody made. With `--pitch` the tone is as high as the first
// number in the text: whoever listens knows which sentence it is.
const rate = 16_000
const has = (option: string) => process.argv.includes(option)

let text = ''
for await (const piece of process.stdin) text += String(piece)
const number = Number(/\d+/.exec(text)?.[0] ?? 0)
const hz = has('--pitch') ? 300 + 100 * number : 500
const tone = (seconds: number, loud: number) =>
  Int16Array.from(
    { length: rate * seconds },
    (_, i) => loud * Math.sin((2 * Math.PI * hz * i) / rate),
  )
const word = new Int16Array((rate * 3) / 10)
word.set(tone(0.2, 12_000))
if (has('--soft')) word.set(tone(0.1, 2_500), rate / 5)

process.stdout.write(wavOf({ rate, pcm: new Int16Array(0) }))
for (const _ of text.split(/\s+/).filter(Boolean)) {
  process.stdout.write(Buffer.from(word.buffer))
  if (has('--live')) await rest(290)
}
