import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, resultOf, scriptedModel, testApp } from '#core/testing'
import calls from '../../plugins/calls/index.ts'
import { WavReader } from '../../plugins/calls/speech/wav.ts'
import playground from '../../plugins/playground/index.ts'
import { UdpForwarder } from '../support/udp-forwarder.ts'
import { CallingPage, wavOfSpeech } from './calling/calling-page.ts'
import { describeWithCaller } from './calling/with-caller.ts'

const patient = { timeout: 90_000, interval: 50 }
const question = 'How is the weather in Nairobi today, and will it rain tomorrow?'
const answer = 'It is sunny in Nairobi, and it stays warm until the evening.'

const weather = definePlugin({
  name: 'weather',
  summary: 'Knows the weather.',
  visibility: 'always',
  tools: {
    look_up_weather: {
      description: 'Looks the weather up.',
      effect: 'read',
      foreign: false,
      input: z.object({ place: z.string() }),
      run: () => 'sunny',
    },
  },
})

/** A transcription server, made from the published API: it streams what its script says, and keeps every file that it got. */
async function transcriptionServer(deltas: readonly string[]) {
  const files: Buffer[] = []
  const server = http.createServer(async (req, res) => {
    const pieces: Buffer[] = []
    for await (const piece of req) pieces.push(piece as Buffer)
    const headers = { 'content-type': req.headers['content-type'] ?? '' }
    const form = await new Response(Buffer.concat(pieces), { headers }).formData()
    const file = form.get('file')
    if (req.url !== '/v1/audio/transcriptions' || !(file instanceof Blob))
      return void res.writeHead(404).end()
    files.push(Buffer.from(await file.arrayBuffer()))
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    const send = (event: object) => res.write(`data: ${JSON.stringify(event)}\n\n`)
    for (const delta of deltas) {
      send({ type: 'transcript.text.delta', delta })
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    send({ type: 'transcript.text.done', text: deltas.join('') })
    res.end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/v1`, files: () => files }
}

/** A program in its place, which keeps every file that it got. */
function transcriptionProgram() {
  const folder = mkdtempSync(join(tmpdir(), 'calls-hearing-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const script = `cat > ${folder}/$$.wav; echo "${question}"`
  return {
    command: JSON.stringify(['sh', '-c', script]),
    files: () => readdirSync(folder).map((file) => readFileSync(join(folder, file))),
  }
}

/** How long sound is between its first and its last loud sample, in seconds, and how loud it is there. */
function measured(file: Buffer) {
  const { pcm, rate } = new WavReader().read(file) ?? { pcm: new Int16Array(0), rate: 1 }
  const isLoud = (sample: number) => Math.abs(sample) > 800
  const spoken = pcm.subarray(pcm.findIndex(isLoud), pcm.findLastIndex(isLoud))
  const power =
    spoken.reduce((sum, sample) => sum + sample * sample, 0) / Math.max(spoken.length, 1)
  return { rate, seconds: spoken.length / rate, loudness: 10 * Math.log10(power) }
}

await describeWithCaller('what is spoken on a page', (browser) => {
  let speech: string
  beforeAll(async () => {
    speech = await wavOfSpeech(question)
  }, 240_000)

  it.each([
    ['a service that streams', 0],
    ['a program', 0],
    ['a service that streams', 2],
    ['a service that streams', 5],
    ['a service that streams', 10],
  ])(
    'reaches %s whole, with %i of a hundred packets lost, and is answered aloud after a tool',
    async (by, percentLost) => {
      const service = await transcriptionServer([
        'How is the weather in Nairobi today, ',
        'and will it rain tomorrow?',
      ])
      const own = transcriptionProgram()
      const isService = by !== 'a program'
      const model = scriptedModel([call('look_up_weather', { place: 'Nairobi' }), answer])
      const app = await testApp({
        plugins: [playground, calls, weather],
        model,
        fetch: globalThis.fetch,
        env: {
          NODE_ENV: 'development',
          CALLS_VOICE: 'espeak',
          ...(isService
            ? {
                CALLS_HEARING: 'openai',
                CALLS_SPEECH_URL: service.url,
                CALLS_SPEECH_KEY: 'a-key',
              }
            : { CALLS_HEARING: 'command', CALLS_HEARING_COMMAND: own.command }),
        },
      })
      onTestFinished(() => app.close())
      const forwarder = new UdpForwarder()
      onTestFinished(() => forwarder[Symbol.asyncDispose]())
      const caller = await CallingPage.open(browser(), app.url, (context) =>
        context.route('**/calls', async (route) => {
          if (route.request().method() !== 'POST') return route.fallback()
          const response = await route.fetch()
          const body = await response.json()
          await route.fulfill({
            response,
            json: { ...body, sdp: await forwarder.behind(body.sdp) },
          })
        }),
      )
      onTestFinished(() => caller.close())
      for (const box of await caller.page.getByRole('checkbox', { name: 'I allow that' }).all())
        await box.check()
      await caller.call()
      forwarder.percentLost = percentLost
      const began = await caller.play(speech)
      await caller.page.getByRole('log', { name: 'Captions' }).getByText(question).waitFor()
      await caller.page.getByRole('log', { name: 'Captions' }).getByText(answer).waitFor()
      await caller.page.getByText('Speaking.').waitFor()
      await caller.page.getByText('Listening.').waitFor()

      const files = isService ? service.files() : own.files()
      expect(files).toHaveLength(1)
      const got = measured(files[0]!)
      const said = measured(Buffer.from(speech, 'base64'))
      console.log(
        `${by}, ${forwarder.lost} of ${forwarder.lost + forwarder.passed} packets lost: ${got.seconds.toFixed(2)} s of ` +
          `${said.seconds.toFixed(2)} s, ${(got.loudness - said.loudness).toFixed(1)} dB`,
      )
      expect(got.rate).toBe(16_000)
      expect(Math.abs(got.seconds - said.seconds)).toBeLessThan(0.3)
      expect(Math.abs(got.loudness - said.loudness)).toBeLessThan(percentLost > 5 ? 6 : 3)
      if (percentLost > 0) expect(forwarder.lost).toBeGreaterThan(0)
      if (isService) {
        const partials = (await caller.frames('caption')).filter(({ isFinal }) => !isFinal)
        expect(partials.map(({ text }) => text)).toContain('How is the weather in Nairobi today, ')
      }
      // The answer is heard: three seconds of speech, and not one sound.
      const heard = await caller.studio(
        (studio, since) => studio.blocks.filter(({ at, peak }) => at > since && peak > 0.02).length,
        began,
      )
      expect(heard * 5).toBeGreaterThan(1_500)
      expect(resultOf(model.requests[1]!, 'look_up_weather')).toBe('sunny')
      await caller.hangUp()
    },
    200_000,
  )
})
