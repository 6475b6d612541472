import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError, type AnyPlugin } from '#core'
import { call, resultOf, scriptedModel, testApp } from '#core/testing'
import { anybody } from '../support/anybody.ts'
import { testEngine } from '../support/engine.ts'
import { modelScript, type Answer } from '../support/model-script.ts'
import { unquote } from '../support/quotation.ts'

/** A plugin that lends, and what was done with its tools. */
function lending() {
  const done: unknown[] = []
  const plugin = definePlugin({
    name: 'ledger',
    summary: 'Keeps accounts.',
    env: { LEDGER_UNIT: z.string().default('ZMW') },
    state: { reads: z.number().default(0) },
    setup: ({ env }) => ({ unit: env.LEDGER_UNIT }),
    tools: {
      read_account: {
        description: 'Reads.',
        effect: 'read',
        input: z.object({ id: z.string() }),
        run({ id }, { self, state }) {
          state.reads++
          done.push(['read', id])
          return `${id}: 5 ${self.unit}`
        },
      },
      pay: {
        description: 'Pays.',
        input: z.object({ amount: z.number() }),
        can: { can: 'ledger/pay' },
        approve: ({ amount }) => amount > 10,
        limit: { max: 2, perMs: 3_600_000 },
        run: ({ amount }) => (done.push(['pay', amount]), `paid ${amount}`),
      },
      hidden: {
        description: 'x',
        effect: 'read',
        input: z.object({}),
        enabled: () => false,
        run: () => done.push('hidden'),
      },
    },
    subAgents: { clerk: { description: 'x', prompt: 'x', tools: ['read_account'] } },
  })
  return { plugin, done }
}

/** A plugin whose sub-agent borrows these tools of the lender. */
function borrowing(lender: ReturnType<typeof lending>['plugin'], how: 'requires' | 'uses') {
  const subAgents = {
    buyer: {
      description: 'Buys.',
      prompt: 'You buy.',
      model: 'small',
      tools: ['note' as const],
      borrow: [
        [lender, 'read_account'],
        [lender, 'pay'],
        [lender, 'hidden'],
      ] as const,
    },
  }
  const rest = {
    name: 'shop',
    summary: 'Buys things.',
    visibility: 'always',
    tools: {
      note: { description: 'x', effect: 'read', foreign: false, input: z.object({}), run: () => 1 },
    },
  } as const
  return how === 'requires'
    ? definePlugin({ ...rest, requires: [lender], subAgents })
    : definePlugin({ ...rest, uses: [lender], subAgents })
}

/** The large model hands over, the small one says these things in order, over all calls of the sub-agent. */
function models(says: readonly Answer[]) {
  const large = modelScript(({ messages }): Answer =>
    messages.at(-1)!.role === 'user'
      ? { calls: [{ name: 'call_buyer', args: { task: 'Buy.' } }] }
      : 'Bought.',
  )
  const small = modelScript(says)
  return { large, small, model: (name?: string) => (name === 'small' ? small : large) }
}

const pay = (amount: number): Answer => ({ calls: [{ name: 'pay', args: { amount } }] })
const read: Answer = { calls: [{ name: 'read_account', args: { id: 'a' } }] }

describe('a borrowed tool', () => {
  it('is called with the context of its own plugin, though the turn has not loaded that plugin', async () => {
    const { plugin, done } = lending()
    const { large, small, model } = models([read, 'Done.'])
    const plugins = [plugin, borrowing(plugin, 'requires')]
    await using engine = await testEngine({ plugins, model })
    const run = await engine.turn('Buy')
    expect(run.end.status).toBe('finished')
    expect(done).toEqual([['read', 'a']])
    expect(small.requests[0]!.tools.map(({ name }) => name).toSorted()).toEqual([
      'note',
      'pay',
      'read_account',
    ])
    expect(unquote(small.requests[1]!.messages.at(-1)!.content)).toBe('a: 5 ZMW')
    // Only the sub-agent borrowed it: the model of the turn neither sees nor may call it.
    expect(large.requests[0]!.tools.map(({ name }) => name)).not.toContain('read_account')
    const states = (await engine.entries()).flatMap(({ states }) => states ?? [])
    expect(states).toEqual([{ ledger: { reads: 1 } }])
  })

  it('is foreign as it was: what is written after it needs consent', async () => {
    const { plugin, done } = lending()
    const { large, small, model } = models([read, pay(1), 'Not done.'])
    const plugins = [plugin, borrowing(plugin, 'requires')]
    await using engine = await testEngine({ plugins, model })
    await engine.turn('Buy')
    expect(small.requests[1]!.messages.at(-1)!.content).toMatch(/^\[quoted \w+: read_account\]/)
    expect(JSON.parse(small.requests[2]!.messages.at(-1)!.content).code).toBe('CONSENT_NEEDED')
    expect(done).toEqual([['read', 'a']])
    expect(large.requests[1]!.messages.at(-1)!.content).toMatch(/^\[quoted \w+: call_buyer\]/)
  })

  it('keeps its can', async () => {
    const { plugin, done } = lending()
    const { small, model } = models([pay(1), 'Not done.', pay(1), 'Done.'])
    const plugins = [plugin, borrowing(plugin, 'requires')]
    await using engine = await testEngine({ plugins, model })
    await engine.turn('Buy', { session: 'without', user: anybody('did:key:zWithout', []) })
    expect(JSON.parse(small.requests[1]!.messages.at(-1)!.content).code).toBe('FORBIDDEN')
    expect(done).toEqual([])
    const user = anybody('did:key:zWith', ['ledger/pay'])
    await engine.turn('Buy', { session: 'with', user })
    expect(done).toEqual([['pay', 1]])
  })

  it('keeps its approve, and its limit', async () => {
    const { plugin, done } = lending()
    const { small, model } = models([pay(50), pay(1), pay(2), 'Done.'])
    const plugins = [plugin, borrowing(plugin, 'requires')]
    await using engine = await testEngine({ plugins, model })
    const asked = await engine.turn({ message: 'Buy', approvals: true })
    expect(asked.end.status).toBe('waiting')
    expect(asked.of('interrupt')).toMatchObject([{ toolName: 'pay', args: { amount: 50 } }])
    expect(done).toEqual([])
    expect((await engine.decide(asked, { decision: 'approve' })).end.status).toBe('finished')
    expect(done).toEqual([
      ['pay', 50],
      ['pay', 1],
    ])
    expect(JSON.parse(small.requests[3]!.messages.at(-1)!.content).code).toBe('RATE_LIMITED')
  })

  it('passes the middleware of all plugins, its own among them', async () => {
    const { plugin } = lending()
    const seen: unknown[] = []
    const watcher = definePlugin({
      name: 'watcher',
      summary: 'Watches.',
      visibility: 'silent',
      middleware: {
        tool: ({ name, plugin }, _, next) => (seen.push([name, plugin]), next()),
      },
    })
    const { model } = models([read, 'Done.'])
    const plugins = [watcher, plugin, borrowing(plugin, 'requires')]
    await using engine = await testEngine({ plugins, model })
    await engine.turn('Buy')
    expect(seen).toEqual([
      ['call_buyer', 'shop'],
      ['read_account', 'ledger'],
    ])
  })

  it('that is switched off is not there', async () => {
    const { plugin, done } = lending()
    const { small, model } = models([{ calls: [{ name: 'hidden' }] }, 'Done.'])
    const plugins = [plugin, borrowing(plugin, 'requires')]
    await using engine = await testEngine({ plugins, model })
    await engine.turn('Buy')
    expect(JSON.parse(small.requests[1]!.messages.at(-1)!.content).code).toBe('FORBIDDEN')
    expect(done).toEqual([])
  })

  it('of a used plugin that the app lacks is missing, also when another plugin has one of its name', async () => {
    const { plugin } = lending()
    const namesake = definePlugin({
      name: 'namesake',
      summary: 'Has a tool of the same name.',
      visibility: 'always',
      tools: {
        read_account: {
          description: 'Other.',
          effect: 'read',
          input: z.object({ id: z.string() }),
          run: () => 'other',
        },
      },
    })
    const { small, model } = models([read, 'Done.'])
    await using engine = await testEngine({
      plugins: [namesake, borrowing(plugin, 'uses')],
      model,
    })
    await engine.turn('Buy')
    expect(small.requests[0]!.tools.map(({ name }) => name)).toEqual(['note'])
    const refused = JSON.parse(small.requests[1]!.messages.at(-1)!.content)
    expect(refused).toMatchObject({ code: 'NOT_FOUND', hint: 'Your tools are note.' })
  })

  it('is there when the used plugin is', async () => {
    const { plugin } = lending()
    const model = scriptedModel([
      call('call_buyer', { task: 'x' }),
      call('read_account', { id: 'b' }),
      'Done.',
      'Bought.',
    ])
    const shop = definePlugin({
      name: 'shop',
      summary: 's',
      visibility: 'always',
      uses: [plugin],
      subAgents: {
        buyer: { description: 'x', prompt: 'x', borrow: [[plugin, 'read_account']] },
      },
    })
    await using app = await testApp({ plugins: [shop, plugin], model })
    await (await app.user()).say('Buy')
    expect(resultOf(model.requests[2]!, 'read_account')).toBe('b: 5 ZMW')
    expect(resultOf(model.requests[3]!, 'call_buyer')).toBe('Done.')
  })
})

describe('at boot', () => {
  const { plugin: ledger } = lending()
  type Definition = Parameters<typeof definePlugin>[0]

  async function faultOf(borrow: unknown, more: object = {}, others: AnyPlugin[] = [ledger]) {
    const agent = { description: 'x', prompt: 'x', borrow }
    const shop = definePlugin({
      name: 'shop',
      summary: 's',
      requires: others,
      ...more,
      subAgents: { buyer: agent } as unknown as Definition['subAgents'] & {},
    })
    const fault = await testApp({ plugins: [...others, shop] }).then(
      () => expect.unreachable(),
      (error: RuntimeError) => error,
    )
    expect(fault.code).toBe('BOOT_FAILED')
    return fault.message.replace(/\s+/g, ' ')
  }

  it('a borrowed tool that the other plugin does not have stops it', async () => {
    expect(await faultOf([[ledger, 'read_acount']])).toContain(
      'borrows "read_acount" of ledger, which has no such tool. Did you mean "read_account"?',
    )
  })

  it('a plugin that is neither required nor used stops it, and the fault says what to write', async () => {
    expect(await faultOf([[ledger, 'pay']], { requires: [] })).toContain(
      'borrows "pay" of ledger, which is neither in "requires" nor in "uses". Add ledger to "requires"',
    )
  })

  it('a sub-agent cannot be borrowed, nor a tool of a silent plugin', async () => {
    expect(await faultOf([[ledger, 'call_clerk']])).toContain('which is a sub-agent')
    const silent = definePlugin({
      name: 'quiet',
      summary: 'q',
      visibility: 'silent',
      tools: { hum: { description: 'x', input: z.object({}), run: () => 1 } },
    })
    expect(await faultOf([[silent, 'hum']], {}, [silent])).toContain('which is silent')
  })

  it.each([['ledger'], [['ledger', 'pay']], [7], [[undefined, 'pay']]])(
    'what is no pair of a plugin and a name stops it: %j',
    async (entry) => {
      expect(await faultOf([entry])).toContain('which is no pair of a plugin and the name')
    },
  )

  it('the tools of a plugin that makes them at boot are known once it is set up', async () => {
    const made = definePlugin({
      name: 'made',
      summary: 'm',
      setup: () => 5,
      tools: ({ self }) => ({
        [`tool_${self}`]: { description: 'x', input: z.object({}), run: () => 1 },
      }),
    })
    expect(await faultOf([[made, 'tool_6']], {}, [made])).toContain(
      'borrows "tool_6" of made, which has no such tool. Did you mean "tool_5"?',
    )
  })
})
