import { describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, parts, type Message, type ModelRequest } from '#core'
import { call, scriptedModel, testApp, type TestAppOptions } from '#core/testing'
import { messagesWithParts } from '../../plugins/models-openai/chat/parts.ts'
import { recordedValue, keepParts } from '../../core/runtime/agent/turn/result-parts.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { fakeOpenAi } from '../support/fake-openai.ts'
import { html, largePng, png, wav } from '../support/sample-files.ts'

const reads = { image: ['image/*'], audio: ['audio/*'] }
const input = z.object({})
const picture = { type: 'image', mediaType: 'image/png', name: 'map.png' } as const

/** A plugin whose tools return pictures. */
const camera = definePlugin({
  name: 'camera',
  summary: 'Takes pictures.',
  visibility: 'always',
  tools: {
    look: {
      description: 'Looks.',
      effect: 'read',
      input,
      run: () =>
        parts([
          { type: 'text', text: 'A map.' },
          { ...picture, data: png() },
        ]),
    },
    glance: {
      description: 'Looks, and keeps nothing.',
      effect: 'read',
      input,
      run: () => parts([{ ...picture, data: png(9), keep: false }]),
    },
    shoot: {
      description: 'Takes a picture.',
      input,
      // A picture changes nothing, whoever asks for it.
      approve: false,
      run: () => parts([{ ...picture, data: png(7).toString('base64') }]),
    },
    break: {
      description: 'Returns what cannot be kept.',
      effect: 'read',
      foreign: false,
      input,
      run: () =>
        parts([
          { ...picture, name: 'page.png', data: html() },
          { ...picture, name: 'large.png', data: largePng(10 * 1024 * 1024 + 1) },
          { type: 'audio', mediaType: 'audio/wav', data: wav() },
        ]),
    },
  },
})

const toolsIn = ({ messages }: Pick<ModelRequest, 'messages'>) =>
  messages.filter(
    (message): message is Extract<Message, { role: 'tool' }> => message.role === 'tool',
  )

await onEachDatabase('a tool that returns parts', ({ databaseUrl }) => {
  const app = (model: TestAppOptions['model'], more: Partial<TestAppOptions> = {}) =>
    testApp({
      plugins: [camera],
      model,
      ...(databaseUrl && { database: 'postgres' as const }),
      ...more,
    })

  it('stores nothing of a file that is not to be kept: the model reads it in this turn alone', async () => {
    const model = scriptedModel([call('glance'), call('look'), 'A map.', 'Gone.'], { reads })
    await using server = await app(model)
    const user = await server.user()
    const { sessionId } = await user.say('Look')
    const [glanced, looked] = toolsIn(model.requests[2]!).map((message) => message.parts?.[0])
    expect(glanced).toMatchObject({ ...picture, bytes: png(9).length })
    expect(Buffer.from(await model.requests[2]!.file!(glanced!.file))).toEqual(png(9))
    expect((await user.get(`/files/${glanced!.file}`)).status).toBe(404)
    expect((await user.get(`/files/${looked!.file}`)).status).toBe(200)
    await user.say('Look again', { sessionId })
    const [later] = toolsIn(model.requests[3]!)
    expect(later!.parts).toBeUndefined()
    expect(later!.content).toContain('it is not kept any more')
  })

  it('gives the model words and files, in this turn and in later ones', async () => {
    const model = scriptedModel([[call('look'), call('shoot')], 'Two.', 'Still two.'], { reads })
    await using server = await app(model)
    const user = await server.user()
    const { sessionId } = await user.say('Look')
    const [looked, shot] = toolsIn(model.requests[1]!)
    expect(looked!.content).toMatch(/^\[quoted \w+: look\]\nA map\.\n\[end \w+\]$/)
    expect(looked!.parts).toEqual([{ ...picture, bytes: png().length, file: expect.any(String) }])
    expect(shot!.content).toBe('Done.')
    const read = await Promise.all(
      [looked, shot].map((one) => model.requests[1]!.file!(one!.parts![0]!.file)),
    )
    expect(read.map((bytes) => Buffer.from(bytes))).toEqual([png(), png(7)])
    await server.again()
    await user.say('And now?', { sessionId })
    expect(toolsIn(model.requests[2]!).map(({ parts }) => parts)).toEqual([
      looked!.parts,
      shot!.parts,
    ])
    const { messages } = (await user.get(`/messages/${sessionId}`)).body
    expect(JSON.stringify(messages)).not.toContain(png().toString('base64'))
    const file = looked!.parts![0]!.file
    expect((await user.get(`/files/${file}`)).status).toBe(200)
    expect((await (await server.user()).get(`/files/${file}`)).status).toBe(404)
    await user.delete(`/sessions/${sessionId}`)
    expect((await user.get(`/files/${file}`)).status).toBe(404)
  })

  it('says what could not be kept, and fails for none of it', async () => {
    const model = scriptedModel([call('break'), 'Well.'], { reads })
    await using server = await app(model)
    await (await server.user()).say('Look')
    const [result] = toolsIn(model.requests[1]!)
    expect(result!.failed).toBeUndefined()
    expect(result!.content).toContain(
      '[image "page.png" is missing: "page.png" is said to be image/png',
    )
    expect(result!.content).toContain(
      '[image "large.png" is missing: "large.png" is larger than 10 MiB',
    )
    expect(result!.parts).toMatchObject([
      { type: 'audio', name: 'audio.wav', mediaType: 'audio/wav' },
    ])
  })

  it('gives a model without eyes a line', async () => {
    const model = scriptedModel([call('look'), 'Well.'])
    await using server = await app(model)
    await (await server.user()).say('Look')
    const [result] = toolsIn(model.requests[1]!)
    expect(result!.content).toContain('A map.')
    expect(result!.content).toContain('[image "map.png": this model reads no images]')
    expect(result).not.toHaveProperty('parts')
  })

  it('goes over the chat wire as a message of the user that names the call', async () => {
    const provider = await fakeOpenAi([
      {
        toolCalls: [
          { name: 'look', id: 'call_a' },
          { name: 'shoot', id: 'call_b' },
        ],
      },
      'Two.',
    ])
    onTestFinished(() => provider.close())
    const env = { MODEL: 'openai/m', OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: 'sk-test' }
    await using server = await testApp({ plugins: [camera], env })
    const user = await server.user()
    const attachments = [{ name: 'me.png', data: png(9).toString('base64') }]
    expect((await user.say('Look', { body: { attachments } })).text).toBe('Two.')
    const url = (shade: number) => `data:image/png;base64,${png(shade).toString('base64')}`
    const sent = provider.requests[1]!.body.messages
    expect(sent.map(({ role }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'tool',
      'tool',
      'user',
    ])
    expect(sent[1]!.content).toEqual([
      { type: 'text', text: 'Look' },
      { type: 'image_url', image_url: { url: url(9) } },
    ])
    expect(sent[5]!.content).toEqual([
      { type: 'text', text: expect.stringMatching(/^What the call \S+ of "look" returned/) },
      { type: 'image_url', image_url: { url: url(120) } },
      { type: 'text', text: expect.stringMatching(/^What the call \S+ of "shoot" returned/) },
      { type: 'image_url', image_url: { url: url(7) } },
    ])
  })
})

describe('parts', () => {
  it('takes pieces, and nothing else', () => {
    for (const wrong of [[], 'text', [{ type: 'text' }], [{ type: 'image', data: 'a' }], [null]])
      expect(() => parts(wrong as never)).toThrow('parts() takes a list of pieces.')
  })

  it('of a write that was done before a crash are there again', async () => {
    const part = { type: 'image', mediaType: 'image/png', bytes: 3, file: 'f' }
    const value = recordedValue(JSON.stringify({ $parts: [part, { type: 'odd' }], text: 'A map.' }))
    expect(await keepParts(value, undefined)).toEqual({ parts: [part], text: 'A map.' })
    for (const text of ['A map.', '{"$parts":[', '{"$parts":[]}'])
      expect(recordedValue(text)).toBe(text)
  })

  it('of sound and documents have their own forms on the chat wire', async () => {
    const message: Message = {
      role: 'user',
      id: '1',
      content: 'Hear',
      parts: [
        { type: 'audio', mediaType: 'audio/wav', bytes: 1, file: 'a' },
        { type: 'audio', mediaType: 'audio/mpeg', bytes: 1, file: 'a' },
        { type: 'file', mediaType: 'application/pdf', name: 'b.pdf', bytes: 1, file: 'a' },
      ],
    }
    const { signal } = new AbortController()
    const file = async () => Buffer.from('x')
    const request = { messages: [message], tools: [], signal, file }
    expect(JSON.parse(`[${await messagesWithParts(request, (plain) => plain)}]`)).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Hear' },
          { type: 'input_audio', input_audio: { data: 'eA==', format: 'wav' } },
          { type: 'input_audio', input_audio: { data: 'eA==', format: 'mp3' } },
          {
            type: 'file',
            file: { filename: 'b.pdf', file_data: 'data:application/pdf;base64,eA==' },
          },
        ],
      },
    ])
  })
})
