import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { callApp } from '../../../../test/support/call-app.ts'
import { call } from '../../../../test/support/call-page.ts'
import { describeWith } from '../../../../test/support/services.ts'
import { WavReader } from '../../speech/wav.ts'

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
})
