import { expect, test, vi, onTestFinished } from 'vitest'
import { hearingByService } from '../speech/openai-hearing.ts'
import { voiceByService } from '../speech/openai-voice.ts'
import type { Fetch } from '../speech/service.ts'
import { WavReader } from '../speech/wav.ts'

const url = 'https://speech.example/v1/'
const never = new AbortController().signal

/** A network that answers from a script, one answer after another. */
function network(...answers: (() => Response | Promise<Response>)[]) {
  const asked: { readonly url: string; readonly init: RequestInit }[] = []
  const fetch: Fetch = async (address, init = {}) => {
    asked.push({ url: String(address), init })
    const answer = answers.shift()
    if (!answer) throw new Error('Nothing more was expected.')
    return answer()
  }
  return { asked, service: { url, key: 'secret-key', fetch } }
}
const json =
  (value: unknown, status = 200) =>
  () =>
    Response.json(value, { status })
const events = (...texts: string[]) => {
  return () =>
    new Response(texts.map((text) => `event: x\ndata: ${text}\n\n`).join(''), {
      headers: { 'content-type': 'text/event-stream; charset=utf-8' },
    })
}
const delta = (text: string) => JSON.stringify({ type: 'transcript.text.delta', delta: text })
const done = (text: string) => JSON.stringify({ type: 'transcript.text.done', text })
/** Rests pass at once. */
const hurried = () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
}

function hear(service: ReturnType<typeof network>['service'], signal = never) {
  const partials: string[] = []
  const hearing = hearingByService(service, 'a-model')
  const partial = (text: string) => void partials.push(text)
  return { partials, open: hearing.open({ language: 'sw-KE', partial, signal }) }
}

test('an utterance is sent as a WAV file, and its words come while they are understood', async () => {
  const { asked, service } = network(events(delta('How '), delta('are you?'), done('How are you?')))
  const { open, partials } = hear(service)
  for (let i = 0; i < 50; i++) open.push(new Int16Array(320).fill(i))
  expect(await open.end()).toEqual({ text: 'How are you?' })
  expect(partials).toEqual(['How ', 'How are you?'])
  const [{ url: address, init } = { url: '', init: {} }] = asked
  expect(address).toBe('https://speech.example/v1/audio/transcriptions')
  expect(new Headers(init.headers).get('authorization')).toBe('Bearer secret-key')
  const form = init.body as FormData
  expect(Object.fromEntries([...form].filter(([name]) => name !== 'file'))).toEqual({
    ...{ model: 'a-model', stream: 'true', response_format: 'json', language: 'sw' },
  })
  const file = Buffer.from(await (form.get('file') as File).arrayBuffer())
  expect(new WavReader().read(file)).toMatchObject({ rate: 16_000, pcm: { length: 16_000 } })
})

test('a server that does not stream answers with one object', async () => {
  const text = JSON.stringify({ text: 'Hello\nthere' }, null, 2)
  const answer = () => new Response(text, { headers: { 'content-type': 'application/json' } })
  expect(await hear(network(answer).service).open.end()).toEqual({ text: 'Hello\nthere' })
})

test('what was sent in a pause is used, and sent anew where the person goes on', async () => {
  const { asked, service } = network(json({ text: 'One.' }), json({ text: 'One, two.' }))
  const { open } = hear(service)
  open.push(new Int16Array(320))
  open.pause?.()
  open.goOn?.()
  open.push(new Int16Array(320))
  open.pause?.()
  expect(await open.end()).toEqual({ text: 'One, two.' })
  expect(asked).toHaveLength(2)
  expect(asked[0]?.init.signal?.aborted).toBe(true)
  const dropped = hear(network(json({ text: 'Nobody asks.' })).service)
  dropped.open.pause?.()
  dropped.open.drop?.()
})

test.each([
  ['an overload', json({}, 503)],
  ['too many requests', json({}, 429)],
  ['half a stream', events(delta('How '))],
  ['no JSON', events('{"type":')],
  ['another kind of answer', () => new Response('<html>')],
  ['a network that is away', () => Promise.reject(new TypeError('fetch failed'))],
])('after %s it is asked once more', async (_, failing) => {
  hurried()
  const good = network(failing, json({ text: 'Hello.' }))
  const understood = hear(good.service).open.end()
  await vi.advanceTimersByTimeAsync(1_000)
  expect(await understood).toEqual({ text: 'Hello.' })
  const bad = network(failing, failing)
  const failed = expect(hear(bad.service).open.end()).rejects.toThrow()
  await vi.advanceTimersByTimeAsync(1_000)
  await failed
  expect(bad.asked).toHaveLength(2)
})

test('a refusal is final, and the key stands in none of its words', async () => {
  const { asked, service } = network(json({ error: 'no such key' }, 401))
  await expect(hear(service).open.end()).rejects.toThrow(
    /^speech\.example answered 401: (?!.*secret)/,
  )
  expect(asked).toHaveLength(1)
})

test('a service that says nothing for eight seconds is given up', async () => {
  hurried()
  const silent: Fetch = (_, init) =>
    new Promise((__, reject) => {
      init?.signal?.addEventListener('abort', () => reject(init.signal?.reason))
    })
  const failed = expect(hear({ url, key: 'x', fetch: silent }).open.end()).rejects.toThrow(
    'said nothing for 8 seconds',
  )
  await vi.advanceTimersByTimeAsync(20_000)
  await failed
})

const voice = (service: ReturnType<typeof network>['service']) =>
  voiceByService(service, { model: 'a-voice-model', name: 'alloy' })

async function spoken(service: ReturnType<typeof network>['service'], name?: string) {
  const samples: number[] = []
  const options = { ...(name && { voice: name }), signal: never }
  for await (const { rate, pcm } of voice(service).speak('Hello.', options)) {
    expect(rate).toBe(24_000)
    samples.push(...pcm)
  }
  return samples
}

test('a sentence is spoken as it comes, in pieces that end anywhere', async () => {
  const sound = Buffer.alloc(2_000)
  for (let i = 0; i < 1_000; i++) sound.writeInt16LE(i * 30 - 15_000, i * 2)
  const answer = () => {
    const body = new ReadableStream<Uint8Array>({
      start(to) {
        for (let at = 0; at < sound.length; at += 333) to.enqueue(sound.subarray(at, at + 333))
        to.close()
      },
    })
    return new Response(body, { headers: { 'content-type': 'audio/pcm' } })
  }
  const { asked, service } = network(answer, answer)
  const samples = Array.from({ length: 1_000 }, (_, i) => i * 30 - 15_000)
  expect(await spoken(service)).toEqual(samples)
  expect(await spoken(service, 'nova')).toEqual(samples)
  expect(asked.map(({ init }) => JSON.parse(String(init.body)))).toMatchObject([
    { model: 'a-voice-model', voice: 'alloy', input: 'Hello.', response_format: 'pcm' },
    { voice: 'nova' },
  ])
})

test.each([
  ['words in place of sound', json({ error: 'x' })],
  ['a refusal', json({ error: 'x' }, 400)],
  ['no sound', () => new Response(null, { headers: { 'content-type': 'audio/pcm' } })],
])('a voice that answers with %s fails', async (_, answer) => {
  await expect(spoken(network(answer).service)).rejects.toThrow('speech.example')
})
