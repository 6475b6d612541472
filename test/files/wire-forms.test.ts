import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, parts } from '#core'
import { fakeProvider, testApp, type FakeProvider, type TestApp } from '#core/testing'
import { pdf, png, wav } from '../support/sample-files.ts'

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')
const dataUrl = (mediaType: string, bytes: Uint8Array) =>
  `data:${mediaType};base64,${base64(bytes)}`

/** How one wire writes files, and the model that is asked over it. */
interface Form {
  readonly wire: string
  readonly model: string
  image(bytes: Uint8Array): object
  /** Undefined where the wire has no form for documents. */
  pdf?(bytes: Uint8Array): object
  /** Undefined where the wire has no form for sounds. */
  wav?(bytes: Uint8Array): object
}

const inBase64 = (media_type: string, bytes: Uint8Array) => ({
  source: { type: 'base64', media_type, data: base64(bytes) },
})
const inline = (mimeType: string) => (bytes: Uint8Array) => ({
  inlineData: { mimeType, data: base64(bytes) },
})

const forms: readonly Form[] = [
  {
    wire: 'Messages',
    model: 'anthropic/a',
    image: (bytes) => ({ type: 'image', ...inBase64('image/png', bytes) }),
    pdf: (bytes) => ({
      ...{ type: 'document', ...inBase64('application/pdf', bytes) },
      title: 'bill.pdf',
    }),
  },
  {
    wire: 'Responses',
    model: 'openai/responses',
    image: (bytes) => ({ type: 'input_image', image_url: dataUrl('image/png', bytes) }),
    pdf: (bytes) => ({
      type: 'input_file',
      filename: 'bill.pdf',
      file_data: dataUrl('application/pdf', bytes),
    }),
  },
  {
    wire: 'generateContent',
    model: 'google/c',
    image: inline('image/png'),
    pdf: inline('application/pdf'),
    wav: inline('audio/wav'),
  },
  {
    wire: 'chat',
    model: 'openai/chat',
    image: (bytes) => ({ type: 'image_url', image_url: { url: dataUrl('image/png', bytes) } }),
    pdf: (bytes) => ({
      type: 'file',
      file: { filename: 'bill.pdf', file_data: dataUrl('application/pdf', bytes) },
    }),
    wav: (bytes) => ({ type: 'input_audio', input_audio: { data: base64(bytes), format: 'wav' } }),
  },
  {
    wire: 'Ollama',
    model: 'ollama/e',
    // The list of pictures beside the text of a message.
    image: (bytes) => [base64(bytes)],
  },
]

/** Every value in a request, at any depth. */
function* valuesIn(value: unknown): Generator<unknown> {
  yield value
  if (typeof value === 'object' && value !== null)
    for (const inner of Object.values(value)) yield* valuesIn(inner)
}

/** How often a form stands in a request, with the fields that a wire adds for its cache left out. */
const timesIn = (request: unknown, form: object) =>
  [...valuesIn(request)].filter((value) => same(value, form)).length

function same(value: unknown, form: object): boolean {
  try {
    if (Array.isArray(form)) expect(value).toEqual(expect.arrayContaining(form))
    else expect(value).toMatchObject(form)
    return typeof value === 'object'
  } catch {
    return false
  }
}

const camera = definePlugin({
  name: 'camera',
  summary: 'Takes pictures.',
  visibility: 'always',
  tools: {
    look: {
      description: 'Looks.',
      effect: 'read',
      input: z.object({}),
      run: () => parts([{ type: 'image', mediaType: 'image/png', data: png(4) }]),
    },
  },
})

let provider: FakeProvider
let app: TestApp
let web: ReturnType<typeof createServer>
let address = ''
const trusted = getCACertificates('default')

beforeAll(async () => {
  const [key, cert] = ['tls-key.pem', 'tls-certificate.pem'].map((name) =>
    readFileSync(join(import.meta.dirname, '../webhooks', name), 'utf8'),
  )
  setDefaultCACertificates([...trusted, cert!])
  web = createServer({ key, cert }, (_, res) =>
    res.writeHead(200, { 'Content-Type': 'image/png' }).end(png(3)),
  ).listen(0, '127.0.0.1')
  await once(web, 'listening')
  const { port } = web.address() as AddressInfo
  address = `https://127.0.0.1:${port}/far.png`
  provider = await fakeProvider()
  app = await testApp({
    plugins: [camera],
    env: {
      MODEL: forms.map(({ model }) => model).join(),
      MODEL_SETTINGS: JSON.stringify({
        'openai/responses': { wire: 'responses' },
        // The models of this provider that hear are few, so the operator says which.
        'openai/chat': {
          wire: 'chat',
          reads: { image: ['image/*'], audio: ['audio/wav'], file: ['application/pdf'] },
        },
      }),
      ANTHROPIC_API_KEY: provider.key,
      ANTHROPIC_BASE_URL: provider.url,
      OPENAI_API_KEY: provider.key,
      OPENAI_BASE_URL: provider.url,
      GOOGLE_API_KEY: provider.key,
      GOOGLE_BASE_URL: provider.url,
      OLLAMA_HOST: provider.url,
      // An author may name this machine; a user cannot.
      ATTACHMENT_HOSTS: `127.0.0.1:${port}`,
    },
  })
})
afterAll(async () => {
  setDefaultCACertificates(trusted)
  web.close()
  await app.close()
  await provider.close()
})

describe.each(forms)('on $wire', ({ model, ...form }) => {
  const csv = { name: 'table.csv', mediaType: 'text/csv', data: base64(Buffer.from('a;b\n1;2')) }

  it('a picture comes as data, as a file and by https, with text, and with what a tool took', async () => {
    const user = await app.user()
    const { fileId } = (await user.post('/files', png(2), { 'X-Filename': 'kept.png' })).body
    const attachments = [
      { name: 'sent.png', data: base64(png(1)) },
      { fileId },
      { url: address },
      csv,
    ]
    provider.clear()
    provider.answer({ calls: [{ name: 'look' }] }, 'Four pictures.')
    const said = await user.say('Look', { body: { model, attachments } })
    expect(said).toMatchObject({ status: 'finished', text: 'Four pictures.' })
    const { body, media, text } = provider.requests.at(-1)!
    for (const shade of [1, 2, 3, 4]) expect(timesIn(body, form.image(png(shade)))).toBe(1)
    expect(media.map(({ bytes }) => base64(bytes))).toEqual(
      [1, 2, 3, 4].map((shade) => base64(png(shade))),
    )
    expect(text).toContain('a;b\\n1;2')
    expect(provider.refusals).toEqual([])
  })

  it.each([
    ['a document', 'bill.pdf', pdf(), form.pdf],
    ['a sound', 'call.wav', wav(), form.wav],
  ] as const)(
    '%s comes in its form, or is refused with the models that read it',
    async (...one) => {
      const [, name, bytes, formOf] = one
      const user = await app.user()
      const { sessionId } = (await user.post('/sessions', {})).body
      const attachments = [{ name, data: base64(bytes) }]
      const before = provider.requests.length
      provider.clear()
      const sent = { message: 'Take it', model, attachments }
      const answer = await user.post(`/messages/${sessionId}`, sent)
      if (formOf) {
        expect(answer.status).toBe(200)
        expect(timesIn(provider.requests.at(-1)!.body, formOf(bytes))).toBe(1)
        expect(provider.requests.at(-1)!.media.map((each) => base64(each.bytes))).toEqual([
          base64(bytes),
        ])
      } else {
        const able = forms.filter((each) => (name === 'call.wav' ? each.wav : each.pdf))
        expect(answer).toMatchObject({ status: 422, body: { code: 'MODEL_CANNOT_READ' } })
        expect(answer.body.details.models).toEqual(able.map((each) => each.model))
        // Another model may have to be opened first to say what it reads; none is asked for words.
        expect(provider.requests.slice(before).filter(({ wire }) => wire)).toEqual([])
      }
    },
  )
})
