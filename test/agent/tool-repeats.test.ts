import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError, type AnyPlugin } from '#core'
import { testApp } from '#core/testing'
import { modelScript } from '../support/model-script.ts'
import { testEngine } from '../support/engine.ts'
import { unquote } from '../support/quotation.ts'

type ToolOf = NonNullable<Parameters<typeof definePlugin>[0]['tools']>

const always = (tools: object): AnyPlugin =>
  definePlugin({ name: 'kit', summary: 'k', visibility: 'always', tools: tools as ToolOf as {} })

const write = { description: 'Writes.', input: z.object({}) }
const read = { ...write, effect: 'read' as const, foreign: false }
interface Keyed {
  readonly callKey: string
}

describe('a write that is repeatable', () => {
  it('runs again after a crash in its middle, with the same key; another does not', async () => {
    const keys: Record<string, string[]> = { pay: [], tell: [] }
    /** The first process hangs in each write; the second finishes what it is given. */
    let isFirst = true
    const run =
      (name: string) =>
      (_: unknown, { callKey }: Keyed) => {
        keys[name]!.push(callKey)
        return isFirst ? new Promise(() => undefined) : `${name} done`
      }
    const plugin = always({
      pay: { ...write, repeatable: true, run: run('pay') },
      tell: { ...write, run: run('tell') },
    })
    const hanging = modelScript([{ calls: [{ name: 'pay' }, { name: 'tell' }] }, 'Well.'])
    await using engine = await testEngine({ plugins: [plugin], model: hanging })
    const lost = await engine.begin('Go')
    await expect.poll(() => [keys.pay!.length, keys.tell!.length]).toEqual([1, 1])
    lost.die()
    expect((await lost.ended).status).toBe('lost')
    isFirst = false
    const model = modelScript(['Well.'])
    await using other = await testEngine({ plugins: [plugin], model, store: engine.store })
    expect((await other.carryOn(lost)).end.status).toBe('finished')
    const results = model.requests[0]!.messages.filter(({ role }) => role === 'tool')
    expect(results[0]!.content).toBe('pay done')
    expect(JSON.parse(results[1]!.content).code).toBe('OUTCOME_UNKNOWN')
    expect(keys.pay).toHaveLength(2)
    expect(new Set(keys.pay).size).toBe(1)
    expect(keys.pay![0]).toMatch(new RegExp(`^${lost.runId}:.+`))
    expect(keys.tell).toHaveLength(1)
  })

  it('has one effect at an upstream that knows keys, though the process died after the effect', async () => {
    const effects = new Map<string, string>()
    let asked = 0
    const upstream = createServer((request, response) => {
      asked++
      const key = String(request.headers['idempotency-key'])
      if (!effects.has(key)) effects.set(key, `receipt ${effects.size + 1}`)
      // The first answer is lost on its way, and the money has gone.
      if (asked > 1) response.end(effects.get(key))
    })
    await once(upstream.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => {
      upstream.closeAllConnections()
      upstream.close()
    })
    const { port } = upstream.address() as AddressInfo
    const plugin = always({
      pay: {
        ...write,
        repeatable: true,
        async run(_: unknown, { callKey }: Keyed) {
          const headers = { 'Idempotency-Key': callKey }
          const paid = await fetch(`http://127.0.0.1:${port}/pay`, { method: 'POST', headers })
          return paid.text()
        },
      },
    })
    const hanging = modelScript([{ calls: [{ name: 'pay' }] }, 'Well.'])
    await using engine = await testEngine({ plugins: [plugin], model: hanging })
    const lost = await engine.begin('Pay')
    await expect.poll(() => effects.size).toBe(1)
    lost.die()
    expect((await lost.ended).status).toBe('lost')
    const model = modelScript(['Well.'])
    await using other = await testEngine({ plugins: [plugin], model, store: engine.store })
    expect((await other.carryOn(lost)).end.status).toBe('finished')
    const results = model.requests[0]!.messages.filter(({ role }) => role === 'tool')
    expect(results[0]!.content).toContain('receipt 1')
    expect({ asked, effects: effects.size }).toEqual({ asked: 2, effects: 1 })
  })

  it('has the same key before and after a person was asked: that of the first run', async () => {
    const seen: string[] = []
    const plugin = always({
      pay: {
        ...write,
        repeatable: true,
        approve: (_: unknown, { callKey }: Keyed) => (seen.push(callKey), true),
        run: (_: unknown, { callKey }: Keyed) => void seen.push(callKey),
      },
    })
    const model = modelScript([{ calls: [{ name: 'pay' }] }, 'Well.'])
    await using engine = await testEngine({ plugins: [plugin], model })
    const asked = await engine.turn({ message: 'Pay', approvals: true })
    const resumed = await engine.decide(asked, { decision: 'approve' })
    expect(resumed.runId).not.toBe(asked.runId)
    expect(new Set(seen).size).toBe(1)
    expect(seen[0]).toMatch(new RegExp(`^${asked.runId}:.+`))
  })
})

it('two calls of one tool have two keys, and what is no call has none', async () => {
  const keys: string[] = []
  const prompts: string[] = []
  const plugin = definePlugin({
    name: 'kit',
    summary: 'k',
    visibility: 'always',
    prompt: ({ callKey }) => (prompts.push(callKey), undefined),
    tools: { look: { ...read, run: (_, { callKey }) => void keys.push(callKey) } },
  })
  const model = modelScript([{ calls: [{ name: 'look' }, { name: 'look' }] }, 'Well.'])
  await using engine = await testEngine({ plugins: [plugin], model })
  await engine.turn('Go')
  expect(new Set(keys).size).toBe(2)
  expect(new Set(prompts)).toEqual(new Set(['']))
})

it('a read is tried again as often as it says, when the fault is one that passes', async () => {
  const tries = { none: 0, usual: 0, twice: 0, wrong: 0 }
  const failing = (name: keyof typeof tries, code: string) => () => {
    tries[name]++
    throw new RuntimeError(code, 'It does not work.')
  }
  const plugin = always({
    none: { ...read, retry: 0, run: failing('none', 'UNAVAILABLE') },
    usual: { ...read, run: failing('usual', 'UNAVAILABLE') },
    twice: { ...read, retry: 2, run: failing('twice', 'UPSTREAM_FAILED') },
    wrong: { ...read, retry: 2, run: failing('wrong', 'NOT_FOUND') },
  })
  const calls = Object.keys(tries).map((name) => ({ name }))
  const model = modelScript([{ calls }, 'Well.'])
  await using engine = await testEngine({ plugins: [plugin], model })
  await engine.turn('Go')
  expect(tries).toEqual({ none: 1, usual: 2, twice: 3, wrong: 1 })
  const results = model.requests[1]!.messages.slice(-4)
  expect(JSON.parse(unquote(results[2]!.content)).code).toBe('UPSTREAM_FAILED')
})

it.each([
  [{ ...write, retry: 2 }, 'has a "retry", but it writes'],
  [{ ...read, retry: -1 }, 'has a "retry" of -1'],
  [{ ...read, retry: 11 }, 'has a "retry" of 11'],
  [{ ...read, retry: '2' }, 'has a "retry" of "2"'],
  [{ ...write, repeatable: 'yes' }, 'has a "repeatable" of "yes"'],
  [{ ...read, repeatable: true }, 'is "repeatable", but it reads'],
])('stops the boot: %j', async (tool, words) => {
  const plugin = always({ work: { ...tool, run: () => 1 } })
  await expect(testApp({ plugins: [plugin] })).rejects.toMatchObject({
    code: 'BOOT_FAILED',
    message: expect.stringContaining(`the tool "work" ${words}`),
  })
})
