import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as rest } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { callApp } from '../../../../test/support/call-app.ts'
import { call } from '../../../../test/support/call-page.ts'
import { recorder } from '../../../../test/support/recorder.ts'
import { describeWith } from '../../../../test/support/services.ts'
import { espeakVoice, joined } from '../../speech/command.ts'
import { Resampler } from '../../speech/resample.ts'
import { WavReader } from '../../speech/wav.ts'

/** What espeak-ng says, at 48 kHz: so many milliseconds from its first sound on. */
async function voiceOf(text: string, ms: number): Promise<Int16Array> {
  const resampler = new Resampler()
  const pieces: Int16Array[] = []
  for await (const spoken of espeakVoice().speak(text, { signal: AbortSignal.timeout(20_000) }))
    pieces.push(resampler.push(spoken))
  const sound = joined(pieces)
  const from = sound.findIndex((sample) => Math.abs(sample) > 800)
  return sound.subarray(from, from + 48 * ms)
}

const patient = { timeout: 45_000, interval: 20 }

await describeWith('espeak', 'a microphone that sends nothing any more', () => {
  it('is silent: what was said before is heard, and answered', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'calls-muted-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const hears = ['sh', '-c', `cat > ${folder}/$$.wav; echo "Will it rain?"`]
    const { user, sessionId } = await callApp(['It will.', 'It will not.'], {
      env: { CALLS_HEARING: 'command', CALLS_HEARING_COMMAND: JSON.stringify(hears) },
    })
    const { page } = await call(user, sessionId)
    await page.speak('Will it rain in Nairobi tomorrow?')
    await expect.poll(() => page.said, patient).toBe('It will.')
    await page.speak('Will it rain in Nairobi tomorrow?')
    await expect.poll(() => page.said, patient).toBe('It will.It will not.')
    const files = readdirSync(folder)
    expect(files).toHaveLength(2)
    const sizes = files.map((file) => readFileSync(join(folder, file)))
    for (const bytes of sizes) {
      const seconds = (new WavReader().read(bytes)?.pcm.length ?? 0) / 16_000
      expect(seconds).toBeGreaterThan(1)
      expect(seconds).toBeLessThan(4)
    }
  }, 120_000)

  it('says nothing between two nods, which do not add up to an interruption', async () => {
    const long = Array.from({ length: 60 }, (_, i) => `One two three four ${i}.`).join(' ')
    const { user, sessionId, model, history } = await callApp([long], {
      env: {
        CALLS_HEARING: 'command',
        CALLS_HEARING_COMMAND: JSON.stringify(['sh', '-c', 'cat > /dev/null; echo Mhm.']),
      },
    })
    const nod = await voiceOf('ma', 400)
    const { page } = await call(user, sessionId)
    page.send({ type: 'say', id: 'a', text: 'Tell me everything.' })
    for (let nth = 1; nth <= 3; nth++) {
      const words = page.beeps
      await expect.poll(() => page.beeps, patient).toBeGreaterThan(words + 1)
      // Its packets follow each other as if no time had passed, and none comes meanwhile.
      await page.play(nod)
      await expect.poll(() => page.of('go').length, patient).toBeGreaterThanOrEqual(nth)
    }
    await rest(2_000)
    expect(page.of('state').at(-1)?.state).toBe('speaking')
    expect(model.requests).toHaveLength(1)
    expect(JSON.stringify(await history())).not.toContain('"cut"')
    expect((await history()).filter(({ type }) => type === 'human')).toHaveLength(1)
  }, 120_000)

  it.each([
    ['says no more than that somebody listens', 'One two three four five six.', 'Mhm, mhm.', 1],
    ['answers a question that has ended', 'One two three four five six?', 'Yes, yes.', 2],
  ])(
    'a nod over the agent’s words that is understood after the last of them %s',
    async (_, reply, nod, requests) => {
      const understood = Promise.withResolvers<string>()
      const { plugin, heard } = recorder(() => understood.promise)
      const { user, sessionId, model } = await callApp([reply, 'Good.'], {
        ...{ plugins: [plugin], env: { CALLS_HEARING: 'recorder' } },
      })
      const { page } = await call(user, sessionId)
      page.send({ type: 'say', id: 'a', text: 'Tell me.' })
      await expect.poll(() => page.beeps, patient).toBeGreaterThan(2)
      await page.play(joined([await voiceOf('ma', 400), new Int16Array(48 * 800)]))
      await expect.poll(() => heard.length, patient).toBe(1)
      await expect.poll(() => page.of('state').at(-1)?.state, patient).toBe('listening')
      understood.resolve(nod)
      if (requests === 1) await rest(1_000)
      else await expect.poll(() => page.said, patient).toBe(`${reply}Good.`)
      expect(model.requests).toHaveLength(requests)
      if (requests === 2) return
      // Said while the agent listens, the same words are an answer.
      page.send({ type: 'say', id: 'b', text: nod })
      await expect.poll(() => page.said, patient).toBe(`${reply}Good.`)
    },
    120_000,
  )
})
