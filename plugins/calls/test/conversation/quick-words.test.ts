import { expect, test } from 'vitest'
import { beginHeld, patient, told } from '../../../../test/support/held-turns.ts'
import { onEachDatabase } from '../../../../test/support/each-database.ts'

await onEachDatabase('words that come while a turn begins', (where) => {
  test('end that turn, and are answered; the first words stay', async () => {
    const { page, say, close, open, isHeld, isHeard, history, seen, state } = await beginHeld(where)
    close()
    say('a', 'Look around.')
    await isHeld('a')
    say('b', 'Second words.')
    await isHeard('b')
    open()
    await expect.poll(() => page.said, patient).toBe('To Second words.')
    await expect.poll(state, patient).toBe('listening')
    expect(seen.aborted).toBe(seen.looks)
    const lines = await told(history)
    expect(lines.filter((line) => line.startsWith('human'))).toEqual([
      'human: Look around.',
      'human: Second words.',
    ])
    expect(lines.at(-1)).toBe('ai: To Second words.')
  }, 120_000)

  test('three at once: the last is answered, and no reply of the others is said', async () => {
    const { page, say, history, state } = await beginHeld(where)
    for (const [id, text] of ['One.', 'Look around.', 'Three.'].entries()) say(`${id}`, text)
    await expect.poll(() => page.said.endsWith('To Three.'), patient).toBe(true)
    await expect.poll(state, patient).toBe('listening')
    expect(page.said).toBe('To Three.')
    const lines = await told(history)
    expect(lines.filter((line) => line.startsWith('human')).map((line) => line.slice(7))).toEqual([
      'One.',
      'Look around.',
      'Three.',
    ])
  }, 120_000)
})

test.each(['the frame', 'the word'])(
  'a stop, %s, ends a turn that begins',
  async (how) => {
    const { page, say, close, open, isHeld, isHeard, history, seen, state } = await beginHeld()
    close()
    say('a', 'Look around.')
    await isHeld('a')
    if (how === 'the frame') page.send({ type: 'stop' })
    else {
      say('b', 'Stop.')
      await isHeard('b')
    }
    await expect.poll(() => page.of('hold').length, patient).toBe(1)
    open()
    await expect.poll(state, patient).toBe('listening')
    expect(seen.aborted).toBe(seen.looks)
    expect(seen.admitted).toHaveLength(1)
    expect(page.said).toBe('')
    expect((await told(history)).filter((line) => line.startsWith('human'))).toHaveLength(1)
    say('c', 'And now?')
    await expect.poll(() => page.said, patient).toBe('To And now.')
  },
  120_000,
)
