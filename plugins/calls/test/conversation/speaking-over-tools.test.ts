import { setTimeout as rest } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { definePlugin, type ModelRequest } from '#core'
import { callApp } from '../../../../test/support/call-app.ts'
import { call } from '../../../../test/support/call-page.ts'
import { describeWith } from '../../../../test/support/services.ts'

const patient = { timeout: 60_000, interval: 20 }
const said = 'And please tell me what is left of it.'
const announced = 'I begin with it now, and while it goes on I tell you a few words about it.'

/** A plugin with a write and a read that take three seconds each. */
function slowTools() {
  const seen = { begun: 0, ended: 0, aborted: 0, endedAt: 0 }
  const run = async (_: object, { signal }: { readonly signal: AbortSignal }) => {
    seen.begun++
    signal.addEventListener('abort', () => seen.aborted++)
    await rest(3_000)
    signal.throwIfAborted()
    seen.ended++
    seen.endedAt = performance.now()
    return 'paid'
  }
  const plugin = definePlugin({
    name: 'slow',
    summary: 'Slow tools.',
    visibility: 'always',
    tools: {
      pay: { description: 'Pays.', effect: 'write', approve: false, input: z.object({}), run },
      look: { description: 'Looks.', effect: 'read', foreign: false, input: z.object({}), run },
    },
  })
  return { plugin, seen }
}

await describeWith('espeak', 'who talks while a tool runs for three seconds', () => {
  async function begin(tool: string) {
    const tools = slowTools()
    const answer = ({ messages }: ModelRequest) =>
      JSON.stringify(messages.at(-1)).includes('what is left') ? 'Nothing is left.' : 'Never heard.'
    const made = await callApp(
      [{ text: announced, calls: [{ call: tool, args: {} }] }, answer, answer],
      {
        plugins: [tools.plugin],
        env: {
          CALLS_HEARING: 'command',
          CALLS_HEARING_COMMAND: JSON.stringify(['sh', '-c', `cat > /dev/null; echo "${said}"`]),
        },
      },
    )
    const { page } = await call(made.user, made.sessionId)
    page.send({ type: 'say', id: 'a', text: 'Pay the rent.' })
    await expect.poll(() => tools.seen.begun, patient).toBe(1)
    await expect.poll(() => page.beeps, patient).toBeGreaterThan(1)
    return { ...made, page, seen: tools.seen }
  }
  /** The last moment at which the agent was heard before a second of silence. */
  const silentFrom = async (page: Awaited<ReturnType<typeof begin>>['page'], since: number) => {
    const last = () =>
      page.levels.findLast(({ at, peak }) => at >= since && peak > 500)?.at ?? since
    await expect.poll(() => performance.now() - last(), patient).toBeGreaterThan(1_000)
    return last()
  }

  test('a write: the voice stops, the tool ends once, and the words become the next turn', async () => {
    const { page, seen, history, model } = await begin('pay')
    const speaking = page.speak(said, 1_200)
    const silentAt = await silentFrom(page, performance.now())
    await speaking
    await expect.poll(() => page.said.endsWith('Nothing is left.'), patient).toBe(true)
    expect(seen).toMatchObject({ begun: 1, ended: 1, aborted: 0 })
    // The agent falls silent while the tool still runs.
    expect(silentAt).toBeLessThan(seen.endedAt)
    const told = (await history()).map(({ content }) => content)
    expect(told.at(0)).toBe('Pay the rent.')
    expect(told.slice(-2)).toEqual([said, 'Nothing is left.'])
    expect(JSON.stringify(await history())).toContain('"paid"')
    expect(page.said).not.toContain('Never heard')
    expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain('paid')
  }, 120_000)

  test('a read: it is aborted, and the words are answered', async () => {
    const { page, seen, history } = await begin('look')
    await page.speak(said, 1_200)
    await expect.poll(() => page.said.endsWith('Nothing is left.'), patient).toBe(true)
    expect(seen).toMatchObject({ begun: 1, ended: 0, aborted: 1 })
    expect((await history()).map(({ content }) => content).slice(-2)).toEqual([
      said,
      'Nothing is left.',
    ])
  }, 120_000)
})
