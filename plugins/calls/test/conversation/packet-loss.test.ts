import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { callApp } from '../../../../test/support/call-app.ts'
import { call } from '../../../../test/support/call-page.ts'
import { describeWith } from '../../../../test/support/services.ts'
import { espeakVoice, joined } from '../../speech/command.ts'
import { WavReader } from '../../speech/wav.ts'

const patient = { timeout: 45_000, interval: 20 }
const question = 'How is the weather in Nairobi today, and will it rain tomorrow?'

/** How long sound is between its first and its last loud sample, in seconds, and how loud it is there. */
function measured(pcm: Int16Array, rate: number) {
  const from = pcm.findIndex((sample) => Math.abs(sample) > 800)
  const to = pcm.findLastIndex((sample) => Math.abs(sample) > 800)
  const spoken = pcm.subarray(from, to)
  const power =
    spoken.reduce((sum, sample) => sum + sample * sample, 0) / Math.max(spoken.length, 1)
  return { seconds: spoken.length / rate, loudness: 10 * Math.log10(power) }
}

await describeWith('espeak', 'speech over a network that loses packets', () => {
  test.each([0, 2, 5, 10])(
    '%i of a hundred: it is one utterance, as long and as loud as it was',
    async (percent) => {
      const folder = mkdtempSync(join(tmpdir(), 'calls-loss-'))
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
      const hears = ['sh', '-c', `cat > ${folder}/$$.wav; echo "Will it rain?"`]
      const { user, sessionId } = await callApp(['It will.'], {
        env: { CALLS_HEARING: 'command', CALLS_HEARING_COMMAND: JSON.stringify(hears) },
      })
      const { page } = await call(user, sessionId)
      let seed = 7
      const isLost = () => (seed = (seed * 16_807) % 2_147_483_647) % 100 < percent
      await page.speak(question, 1_500, isLost)
      await expect.poll(() => page.said, patient).toBe('It will.')
      const [file = '', ...others] = readdirSync(folder)
      expect(others).toEqual([])
      const heard = new WavReader().read(readFileSync(join(folder, file)))
      expect(heard?.rate).toBe(16_000)
      const pieces: Int16Array[] = []
      for await (const { pcm } of espeakVoice().speak(question, {
        signal: AbortSignal.timeout(20_000),
      }))
        pieces.push(pcm)
      const spoken = measured(joined(pieces), 22_050)
      const got = measured(heard?.pcm ?? new Int16Array(0), 16_000)
      expect(Math.abs(got.seconds - spoken.seconds)).toBeLessThan(0.3)
      expect(Math.abs(got.loudness - spoken.loudness)).toBeLessThan(3)
    },
  )
})
