import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { didYouMean, giveWay } from '#core'
import { decide } from '../../plugins/models-demo/demo/decide.ts'
import { parseJson } from '../../core/runtime/base/safe-json.ts'
import { contentOf } from '../../core/runtime/agent/tools/tool-content.ts'
import { leastPause, WatchedServer } from '../support/watched.ts'
import { signerFromMnemonic } from '../../core/runtime/auth/did/signer.ts'
import { conformTo } from '../../plugins/registry/protocols/conform.ts'
import { readDefinition } from '../../plugins/registry/protocols/definition.ts'
import { shown } from '../../plugins/registry/wants.ts'
import { shown as shownBySampling } from '../../plugins/sampling/request.ts'
import { withProof } from '../../plugins/registry/credentials/data-integrity.ts'
import { plain } from '../../plugins/ussd/oracle/plain.ts'

/** The least processor time that some work takes, in milliseconds: what others do on the machine is not counted. */
async function cost(work: () => unknown): Promise<number> {
  let least = Infinity
  for (let tries = 0; tries < 3; tries++) {
    const before = process.cpuUsage()
    await work()
    const { user, system } = process.cpuUsage(before)
    least = Math.min(least, (user + system) / 1000)
    if (least < 20) break
  }
  return least
}

describe('a suggestion', () => {
  const names = Array.from({ length: 5000 }, (_, n) => `property_of_a_${n}_long_name`)

  it('is found as before among few names', () => {
    expect(didYouMean('wether', ['ledger', 'weather'])).toBe('weather')
    expect(didYouMean('ab', ['ba'])).toBe('ba')
    expect(didYouMean('xylophone', ['ledger', 'weather'])).toBeUndefined()
  })

  it('is not looked for where a word or a name is longer than 64 characters', () => {
    expect(didYouMean('x'.repeat(65), ['x'.repeat(64)])).toBeUndefined()
    expect(didYouMean('x'.repeat(64), ['x'.repeat(65)])).toBeUndefined()
    expect(didYouMean('x'.repeat(64), [`${'x'.repeat(63)}y`])).toBe(`${'x'.repeat(63)}y`)
  })

  it('is given up for thousands of words at once, and comes back when the loop has turned', async () => {
    await sleep(0)
    const ms = await cost(() => {
      for (let n = 0; n < 3000; n++) didYouMean(`propretyof_a_${n}long_nam`, names)
    })
    expect(ms).toBeLessThan(60)
    await sleep(5)
    expect(didYouMean('wether', ['weather'])).toBe('weather')
  })
})

it('a loop that gives way lets others have their turn within the budget', async () => {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  const spin = (ms: number) => {
    for (const end = performance.now() + ms; performance.now() < end;);
  }
  let least = Infinity
  // What the machine does beside the test comes and goes: the best of some tries is the loop's own.
  for (let tries = 0; tries < 10 && least > 60; tries++) {
    await sleep(10)
    delay.enable()
    await sleep(5)
    delay.reset()
    for (let item = 0; item < 200; item++) {
      await giveWay()
      spin(1)
    }
    await sleep(5)
    delay.disable()
    least = Math.min(least, delay.max / 1e6)
  }
  expect(least).toBeLessThan(60)
})

describe('the demonstration model', () => {
  const numbered = (count: number) => Array.from({ length: count }, (_, n) => `x${n}`)
  const field = (_: string, n: number) => ({
    type: ['string', 'number', 'object', 'array', 'boolean'][n % 5],
    description: 'population x number '.repeat(3),
  })
  const wide = {
    type: 'object',
    properties: Object.fromEntries(numbered(400).map((name, n) => [name, field(name, n)])),
    required: numbered(400),
  }
  const endless = {
    type: 'object',
    properties: Object.fromEntries(numbered(64).map((name) => [name, { $ref: '#' }])),
    required: numbered(64),
  }
  const texts = [
    '1'.repeat(8000),
    '1 '.repeat(4000),
    `draw x1 ${' '.repeat(8000)}y`,
    'x1:'.repeat(3000) + '\n',
    '{ ' + '{x} '.repeat(2000),
    '“'.repeat(8000),
    "'a".repeat(4000),
    'Aa de '.repeat(2000),
    'a.'.repeat(4000),
    'draw x1 5 and '.repeat(600),
    ','.repeat(8000),
    numbered(2000).join(' '),
  ]

  it.each(texts.map((text) => [text.slice(0, 12), text] as const))(
    'reads %j… as fast as anything',
    async (_, content) => {
      for (const parameters of [wide, endless]) {
        const tool = () => ({ name: 'draw', description: 'Draws x.', parameters })
        const asked = 'To use draw I still need: x1. What should it be?'
        const said = { role: 'user', id: 'u', content } as const
        const now = { at: new Date(), zone: 'UTC' }
        const ms = await cost(async () => {
          await decide([said], [tool()], now)
          await decide([said, { role: 'assistant', id: 'a', content: asked }, said], [tool()], now)
        })
        expect(ms).toBeLessThan(250)
      }
    },
  )
})

describe('a protocol with many values to choose from', () => {
  const values = Array.from({ length: 20_000 }, (_, n) => `v${n}`)
  const list = { type: 'array', items: { type: 'string', enum: values } } as const
  const conform = conformTo({ properties: { list } })

  it('finds a value among them at once, however often it is asked', async () => {
    const given = { list: Array<string>(50_000).fill('v19999') }
    expect(await cost(() => conform(given))).toBeLessThan(250)
    expect(conform(given)).toEqual([])
  })

  it('names some of them to whoever gave others, and stops at a hundred faults', async () => {
    const given = { list: Array<string>(50_000).fill('x') }
    let faults: ReturnType<typeof conform> = []
    expect(await cost(() => (faults = conform(given)))).toBeLessThan(250)
    expect(faults).toHaveLength(100)
    expect(faults[0]?.message).toMatch(/^give one of "v0", .*"v19" and 19980 more, not "x"$/)
    const numbers = { ...list, items: { type: 'string', enum: Array<number>(400_000).fill(1) } }
    const request = { type: 'Protocol', properties: { list: numbers } } as const
    let fault: unknown
    try {
      readDefinition(request)
    } catch (error) {
      fault = error
    }
    expect(fault).toMatchObject({ code: 'INVALID_INPUT' })
    expect((fault as { details: unknown }).details).toHaveLength(100)
  })
})

describe('a value in the words of an error', () => {
  it.each([
    ['the registry', shown],
    ['sampling', shownBySampling],
  ])('is written out no further than it is shown, by %s', async (_, show) => {
    const row = Array<object>(50_000).fill({})
    const many = Array<object[]>(400).fill(row)
    expect(await cost(() => show(many))).toBeLessThan(100)
    expect(show(many)).toBe(`${JSON.stringify([row.slice(0, 60)]).slice(0, 57)}...`)
    const ones = Array<number>(31).fill(1)
    expect(show(ones)).toBe(`${JSON.stringify(ones).slice(0, 57)}...`)
    expect(show(ones.slice(0, 29))).toBe(JSON.stringify(ones.slice(0, 29)))
  })
})

describe('text and JSON from outside', () => {
  it('an object of more than 10,000 keys is refused before it is built', () => {
    const keys = (count: number) =>
      JSON.stringify(
        Object.fromEntries(Array.from({ length: count }, (_, n) => [`k,${n}`, [1, 2]])),
      )
    expect(Object.keys(parseJson(keys(10_000)) as object)).toHaveLength(10_000)
    expect(() => parseJson(keys(10_001))).toThrow('more than 10000 keys')
    expect(parseJson(`[${'{"a":1,"b":2},'.repeat(20_000)}1]`)).toHaveLength(20_001)
  })

  it('a result full of replacement characters is cut at once, between two characters', async () => {
    const text = `${'\ufffd'.repeat(400_000)}x`
    expect(await cost(() => contentOf(text))).toBeLessThan(100)
    expect(contentOf(`a${'é'.repeat(400_000)}`)).not.toContain('\ufffd')
  })

  it('an answer of the agent full of brackets reaches a phone at once', async () => {
    for (const sign of ['[', '![', '_', '\n', '(', '[a](', '_a'])
      expect(await cost(() => plain(sign.repeat(200_000)))).toBeLessThan(250)
    expect(plain('See [the site](https://a.example) \n\n- one\n - two')).toBe(
      'See the site https://a.example - one - two',
    )
  })
})

it(
  '150 lines of 150 names that nobody knows keep the event loop no longer than an import does',
  { timeout: 60_000 },
  async () => {
    await using server = await WatchedServer.start({ API_KEY: 'a-key-for-this-test' })
    const post = async (path: string, type: string, body: string) => {
      const headers = { authorization: 'Bearer a-key-for-this-test', 'content-type': type }
      const response = await fetch(server.url + path, { method: 'POST', headers, body })
      return { status: response.status, text: await response.text() }
    }
    const names = Array.from({ length: 150 }, (_, n) => `a_property_with_a_long_name_${n}`)
    const known = Object.fromEntries(names.map((name) => [name, 'string']))
    const made = await post(
      '/v1/protocols',
      'application/json',
      JSON.stringify({ type: 'Protocol', properties: known }),
    )
    const { did: protocol } = JSON.parse(made.text) as { did: string }
    const lines = (rename: (name: string) => string) =>
      Array.from({ length: 150 }, () =>
        JSON.stringify({
          type: 'Stove',
          protocol,
          properties: Object.fromEntries(names.map((name) => [rename(name), 'x'])),
        }),
      ).join('\n')
    const send = (body: string) => post('/v1/entities/batch', 'application/x-ndjson', body)
    const good = await leastPause(server, 3, () => send(lines((name) => name)))
    const unknown = lines((name) => name.replace('property', 'porperty'))
    let answer = { status: 0, text: '' }
    const pause = await leastPause(server, 3, async () => (answer = await send(unknown)))
    expect(answer.status).toBe(200)
    expect(answer.text).toContain('did you mean')
    expect(pause).toBeLessThan(good + 100)
  },
)

it(
  'long credentials and those with several proofs keep the event loop no longer than any JSON of their size',
  { timeout: 120_000 },
  async () => {
    await using server = await WatchedServer.start({ API_KEY: 'a-key-for-this-test' })
    const post = async (path: string, type: string, body: string) => {
      const headers = { authorization: 'Bearer a-key-for-this-test', 'content-type': type }
      const response = await fetch(server.url + path, { method: 'POST', headers, body })
      return { status: response.status, text: await response.text() }
    }
    const made = await post(
      '/v1/protocols',
      'application/json',
      JSON.stringify({ type: 'Protocol', properties: { name: 'string' } }),
    )
    const { did: protocol } = JSON.parse(made.text) as { did: string }
    const lines = (count: number, credentials: readonly object[]) =>
      Array<string>(count)
        .fill(
          JSON.stringify({
            type: 'Stove',
            protocol,
            properties: {},
            verifiableCredential: credentials,
          }),
        )
        .join('\n')
    const key = signerFromMnemonic('whoever presents what takes long to read')
    const proven = (junk: readonly unknown[]) => {
      const document = { type: 'VerifiableCredential', issuer: key.did, junk }
      const { proof } = withProof(document, key, new Date())
      return { ...document, proof: [proof, proof, proof, proof] }
    }
    const ones = (count: number) => Array<number>(count).fill(1)
    const wide = Object.fromEntries(Array.from({ length: 9000 }, (_, n) => [`k${n % 97}.${n}`, 1]))
    const tooLong = { type: 'VerifiableCredential', issuer: key.did, proof: {} }
    const send = (body: string) => post('/v1/entities/batch', 'application/x-ndjson', body)

    // The same bytes without a proof: what it takes to read so much JSON at all.
    const unproven = ({ proof, ...rest }: { proof: unknown }) => ({ ...rest, notes: proof })
    const worst = {
      'many proofs': [3, Array(15).fill(proven(ones(30_000)))],
      'too long': [10, [{ ...tooLong, a: Array(9).fill(wide) }]],
    } as const
    for (const [name, [count, credentials]] of Object.entries(worst)) {
      const plainOnes = lines(count, credentials.map(unproven))
      const control = await leastPause(server, 2, () => send(plainOnes))
      let answer = { status: 0, text: '' }
      const body = lines(count, credentials)
      const pause = await leastPause(server, 3, async () => (answer = await send(body)))
      expect(answer.status).toBe(200)
      expect(answer.text).toContain('verifiableCredential')
      expect([name, pause < control + 200 ? 'short' : pause]).toEqual([name, 'short'])
    }
  },
)
