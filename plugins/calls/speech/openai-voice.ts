import type { Spoken, Voice } from './port.ts'
import { askService, nameOf, type SpeechService } from './service.ts'

/** The rate of `response_format: pcm`, and how much sound a sentence may be: two minutes. */
const rate = 24_000
const mostBytes = rate * 2 * 120

/** What a voice by a speech server says it with. */
export interface ServiceVoice {
  readonly model: string
  /** The voice, where a call names none. */
  readonly name: string
}

/** Speech by a speech server: each sentence to `/audio/speech`, its sound as it comes. */
export const voiceByService = (service: SpeechService, { model, name }: ServiceVoice): Voice => ({
  name: nameOf(service),
  where: 'service',
  voices: [name],
  async *speak(text, { voice, signal }): AsyncIterable<Spoken> {
    const asked = () => ({
      body: JSON.stringify({ model, voice: voice ?? name, input: text, response_format: 'pcm' }),
      headers: { 'Content-Type': 'application/json' },
    })
    const isWanted = (type: string) => /^(?:audio\/|application\/octet-stream)/i.test(type)
    let odd = Buffer.alloc(0)
    let bytes = 0
    for await (const piece of askService(service, '/audio/speech', asked, signal, isWanted)) {
      bytes += piece.length
      if (bytes > mostBytes) throw new Error(`${nameOf(service)} sent too much sound.`)
      const sound = Buffer.concat([odd, piece])
      const pcm = new Int16Array(sound.length >> 1)
      for (let i = 0; i < pcm.length; i++) pcm[i] = sound.readInt16LE(i * 2)
      odd = sound.subarray(pcm.length * 2)
      if (pcm.length > 0) yield { rate, pcm }
    }
    if (bytes === 0) throw new Error(`${nameOf(service)} sent no sound.`)
  },
})
