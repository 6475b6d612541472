import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { callApp } from '../../../../test/support/call-app.ts'
import { call } from '../../../../test/support/call-page.ts'
import { describeWith } from '../../../../test/support/services.ts'

const patient = { timeout: 45_000, interval: 20 }

/** A shell command that does one thing while a file is there, and another once it is gone. */
function broken(whileBroken: string, whole: string) {
  const folder = mkdtempSync(join(tmpdir(), 'calls-failing-'))
  const flag = join(folder, 'broken')
  writeFileSync(flag, '')
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const script = `if [ -e ${flag} ]; then ${whileBroken}; else ${whole}; fi`
  return { command: JSON.stringify(['sh', '-c', script]), mend: () => rmSync(flag) }
}

await describeWith('espeak', 'a voice that fails', () => {
  const speak = 'espeak-ng --stdin --stdout'
  test.each([
    ['refuses', 'cat > /dev/null; echo 401 >&2; exit 1'],
    ['is silent', 'cat > /dev/null'],
    ['makes garbage', 'cat > /dev/null; head -c 50000 /dev/urandom'],
    ['dies in mid-sentence', `${speak} | head -c 30000; exit 3`],
    ['writes without end', `${speak}; cat /dev/zero`],
    ['answers nothing for long', 'cat > /dev/null; exec sleep 60'],
  ])(
    'that %s: the answer is read, and the next one is heard',
    async (_, whileBroken) => {
      const { command, mend } = broken(whileBroken, speak)
      const { user, sessionId } = await callApp(['One is said.', 'Two is said.'], {
        env: { CALLS_VOICE_COMMAND: command },
      })
      const { page, callId } = await call(user, sessionId)
      page.send({ type: 'say', id: 'a', text: 'One?' })
      await expect.poll(() => page.said, patient).toBe('One is said.')
      await expect.poll(() => page.of('notice'), patient).toMatchObject([{ code: 'VOICE_FAILED' }])
      await expect.poll(() => page.of('state').at(-1)?.state, patient).toBe('listening')
      expect(JSON.stringify(page.frames)).not.toMatch(/\b401\b|espeak|sh ended|at .*\.ts/)
      mend()
      const from = page.levels.length
      page.send({ type: 'say', id: 'b', text: 'Two?' })
      const isHeard = () => page.levels.slice(from).filter(({ peak }) => peak > 500).length > 10
      await expect.poll(isHeard, patient).toBe(true)
      expect((await user.get(`/calls/${callId}`)).body.callStatus).toBe('active')
    },
    120_000,
  )
})

await describeWith('espeak', 'ears that fail', () => {
  test.each([
    ['refuse', 'cat > /dev/null; exit 1', true],
    ['understand nothing', 'cat > /dev/null', false],
    ['write without end', 'cat > /dev/null; yes word', true],
  ])(
    'that %s: the person is told, and the next words are understood',
    async (_, whileBroken, isTold) => {
      const { command, mend } = broken(whileBroken, 'cat > /dev/null; echo "What time is it?"')
      const { user, sessionId, model } = await callApp(['It is noon.'], {
        env: { CALLS_HEARING: 'command', CALLS_HEARING_COMMAND: command },
      })
      const { page, callId } = await call(user, sessionId)
      await page.speak('Please tell me what time it is.', 1_500)
      if (isTold) {
        await expect
          .poll(() => page.of('notice'), patient)
          .toMatchObject([{ code: 'HEARING_FAILED' }])
        expect(page.said).toContain('please type')
        await expect.poll(() => page.of('state').at(-1)?.state, patient).toBe('listening')
      }
      expect(model.requests).toHaveLength(0)
      mend()
      await page.speak('Please tell me what time it is.', 1_500)
      await expect.poll(() => page.said.endsWith('It is noon.'), patient).toBe(true)
      expect((await user.get(`/calls/${callId}`)).body.callStatus).toBe('active')
    },
    120_000,
  )

  test('a transcription of 20,000 characters and marks is a message like any other', async () => {
    const script = `cat > /dev/null; printf '<b>\\007 approve all '; head -c 20000 /dev/zero | tr '\\0' 'a'`
    const { user, sessionId, history } = await callApp(['Well.'], {
      env: {
        CALLS_HEARING: 'command',
        CALLS_HEARING_COMMAND: JSON.stringify(['sh', '-c', script]),
      },
    })
    const { page } = await call(user, sessionId)
    await page.speak('Please tell me what time it is.', 1_500)
    await expect.poll(() => page.said, patient).toBe('Well.')
    const [said] = await history()
    expect(said?.content).toMatch(/^<b>\s+approve all a+$/)
    expect(said?.content.length).toBeLessThanOrEqual(8_000)
  }, 120_000)
})
