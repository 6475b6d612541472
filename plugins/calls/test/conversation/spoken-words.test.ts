import { setTimeout as rest } from 'node:timers/promises'
import { createEncoder } from 'libopus-wasm'
import { expect, test } from 'vitest'
import { beginHeld, patient, told } from '../../../../test/support/held-turns.ts'
import { recorder, speechOf } from '../../../../test/support/recorder.ts'
import { describeWith } from '../../../../test/support/services.ts'

type Held = Awaited<ReturnType<typeof beginHeld>>

/** A call in which utterance after utterance is understood as the next of these words. */
async function speaking(...words: readonly string[]) {
  const { plugin, heard } = recorder((nth) => words[nth - 1] ?? '')
  const made = await beginHeld({ plugins: [plugin], env: { CALLS_HEARING: 'recorder' } })
  return { ...made, heard }
}

const humans = async ({ history }: Held) =>
  (await told(history)).filter((line) => line.startsWith('human')).map((line) => line.slice(7))

await describeWith('espeak', 'words that are spoken', () => {
  test('while a turn begins: it ends, and they are answered; the first words stay', async () => {
    const made = await speaking('Look around.', 'Second words.')
    const { page, close, open, isHeld, isHeard, seen, state } = made
    close()
    await page.speak('Look around you.', 800)
    await isHeld('1', 'heard')
    await page.speak('Hello there.', 800)
    await isHeard('2', 'heard')
    open()
    await expect.poll(() => page.said, patient).toBe('To Second words.')
    await expect.poll(state, patient).toBe('listening')
    expect(seen.aborted).toBe(seen.looks)
    expect(await humans(made)).toEqual(['Look around.', 'Second words.'])
  }, 120_000)

  test('one right after the other: the last is answered, and all stay', async () => {
    const made = await speaking('One.', 'Two.', 'Three.')
    const { page, state } = made
    for (const _ of [1, 2, 3]) await page.speak('Hello there.', 640)
    await expect.poll(() => page.said.endsWith('To Three.'), patient).toBe(true)
    await expect.poll(state, patient).toBe('listening')
    expect(await humans(made)).toEqual(['One.', 'Two.', 'Three.'])
    // Of the others no more is said than had been when the person went on.
    expect(page.said).toMatch(/^(To One\.)?(To Two\.)?To Three\.$/)
  }, 120_000)

  test('understood as 20,000 characters, as nothing but marks, as markup: a message of a call is 8,000 at most, and plain', async () => {
    const made = await speaking('word '.repeat(4_000), ' …\u0000 ', '<b>Hi</b>\u0000\u0007there')
    const { page, heard, state } = made
    for (const nth of [1, 2, 3]) {
      await page.speak('Hello there.', 800)
      await expect.poll(() => heard.length, patient).toBe(nth)
    }
    await expect.poll(() => page.said, patient).toMatch(/To <b>Hi<\/b> there\.$/)
    await expect.poll(state, patient).toBe('listening')
    expect(await humans(made)).toEqual(['word '.repeat(1_600).trim(), '<b>Hi</b> there'])
  }, 120_000)

  test('for more than a minute: what is said in a minute is a turn, the rest is the next one, and that is answered', async () => {
    const made = await speaking('The first part', 'and the second part.')
    const { page, heard, state } = made
    const words = await speechOf('and then we went on and on and on, over the hills and far away,')
    const said = words.subarray(
      0,
      words.findLastIndex((sample) => Math.abs(sample) > 300),
    )
    const encoder = await createEncoder({ sampleRate: 48_000, channels: 1 })
    const seconds = 70
    for (let nth = 0; nth < seconds * 50 + 50; nth++) {
      const frame = new Int16Array(960)
      if (nth < seconds * 50)
        for (let i = 0; i < 960; i++) frame[i] = said[(nth * 960 + i) % said.length] ?? 0
      await page.packet(encoder.encode(frame), 1_000 + nth)
      // Twice as fast as a person speaks: only how much was said ends an utterance. Never faster, which would end the call.
      await rest(9)
    }
    encoder.free()
    const isAnswered = () => page.said.endsWith('To and the second part.')
    const message = JSON.stringify(page.frames.slice(-20))
    await expect.poll(isAnswered, { ...patient, message }).toBe(true)
    await expect.poll(state, patient).toBe('listening')
    expect(heard).toHaveLength(2)
    const [first = 0, second = 0] = heard.map(({ samples }) => samples / 16_000)
    expect(first).toBeGreaterThan(59.9)
    expect(first).toBeLessThan(60.5)
    // The silence that ends it is a part of what is heard.
    expect(Math.abs(first + second - seconds - 0.6)).toBeLessThan(0.5)
    expect(await humans(made)).toEqual(['The first part', 'and the second part.'])
    expect((await told(made.history)).at(-1)).toBe('ai: To and the second part.')
  }, 180_000)
})
