import { setTimeout as rest } from 'node:timers/promises'
import { wavOf } from '../../plugins/calls/speech/wav.ts'

// A voice for tests, as a program: each word is a tone of 200 ms and a pause of 100 ms, so that whoever listens can count the
// words. With `--live` the sound comes no faster than it is heard, as that of a slow service does.
const rate = 16_000
const tone = Int16Array.from({ length: rate / 5 }, (_, i) => 12_000 * Math.sin((i * Math.PI) / 16))
const word = new Int16Array(tone.length + rate / 10)
word.set(tone)

let text = ''
for await (const piece of process.stdin) text += String(piece)
process.stdout.write(wavOf({ rate, pcm: new Int16Array(0) }))
for (const _ of text.split(/\s+/).filter(Boolean)) {
  process.stdout.write(Buffer.from(word.buffer))
  if (process.argv.includes('--live')) await rest(290)
}
