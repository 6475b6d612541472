import { definePlugin } from '#core'
import calls from '../../plugins/calls/index.ts'
import { espeakVoice } from '../../plugins/calls/speech/command.ts'
import { Resampler } from '../../plugins/calls/speech/resample.ts'

/** What hears in a test: it keeps how many samples each utterance had, and understands what the test says. */
export function recorder(understood: (nth: number) => string | Promise<string> = () => 'Hello?') {
  /** The samples of each utterance, of 16 kHz, and how loud it was at most. */
  const heard: { samples: number; peak: number }[] = []
  const plugin = definePlugin({
    name: 'recorder',
    summary: 'Hears and keeps how much it was.',
    visibility: 'silent',
    requires: [calls],
    setup({ plugins }) {
      plugins.calls.speech({
        hearing: {
          ...{ name: 'recorder', where: 'server' },
          open() {
            const one = { samples: 0, peak: 0 }
            return {
              push(pcm) {
                one.samples += pcm.length
                for (const sample of pcm) one.peak = Math.max(one.peak, Math.abs(sample))
              },
              async end() {
                heard.push(one)
                return { text: await understood(heard.length) }
              },
            }
          },
        },
      })
    },
  })
  return { plugin, heard }
}

/** A text as speech of 48 kHz. */
export async function speechOf(text: string): Promise<Int16Array> {
  const resampler = new Resampler()
  const sound: number[] = []
  const signal = AbortSignal.timeout(30_000)
  for await (const spoken of espeakVoice().speak(text, { signal }))
    for (const sample of resampler.push(spoken)) sound.push(sample)
  return Int16Array.from(sound)
}
