import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Delta, Model, ModelRequest } from '#core'
import { WireModel } from '#core/models'
import { fakeProvider, type FakeProvider, type FakeProviderOptions } from '#core/testing'
import { models as bundled } from '../../plugins/models.ts'
import { MessagesModel } from '../../plugins/models-anthropic/model.ts'
import { GenerateModel } from '../../plugins/models-google/model.ts'
import { ChatModel } from '../../plugins/models-openai/chat/model.ts'
import { compatible } from '../../plugins/models-openai/compatible.ts'
import { openResponses } from '../../plugins/models-openai/responses/open.ts'
import { bareEnv, fromSources, root } from '../support/process.ts'
import { checkModel } from '../../cli/model-check.ts'

const script = join(root, 'cli/main.ts')

/** Runs the command in a folder with these files, and with these variables alone. */
async function models(
  args: readonly string[],
  env: Record<string, string>,
  files: Readonly<Record<string, string>> = {},
  hasPackages = false,
) {
  const folder = mkdtempSync(join(tmpdir(), 'models-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content)
  if (hasPackages) symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  const child = spawn(process.execPath, [...fromSources, script, 'models', ...args], {
    cwd: folder,
    env: { ...bareEnv(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [out, err, code] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise((done) => child.on('close', done)),
  ])
  expect(err).toBe('')
  return { out, code }
}

const note = (word: string) => ({ name: 'contract_note', args: { word } })
const clock = { name: 'contract_clock' }
const think = 'I have a tool for that.'

/** A provider that answers the contract as a model of today does. */
async function provider(options: FakeProviderOptions = {}): Promise<FakeProvider> {
  const made = await fakeProvider(options)
  onTestFinished(() => made.close())
  made.otherwise = ({ text: asked, media }) => {
    const results = asked.split('noted\\":true').length - 1
    if (asked.includes('in words.')) return { text: 'One two three', then: 'silence' }
    if (asked.includes('Which colour is blood')) return '{"word":"red"}'
    if (asked.includes('Thank you.')) return 'You are welcome.'
    if (asked.includes('First call contract_note')) {
      if (results === 0) return { reasoning: think, calls: [note('red'), note('blue')] }
      return results === 2 ? { reasoning: think, calls: [note('green')] } : 'Noted.'
    }
    if (asked.includes('In one answer')) return { calls: [note('red'), note('blue'), clock] }
    if (media.length > 0) return { describes: true }
    // What is asked with tools and without a note is to call the other tool.
    if (asked.includes('contract_clock') && !asked.includes('What shall I note'))
      return { calls: [clock] }
    return { text: 'Hello to you.', usage: { inputTokens: 30, outputTokens: 5 } }
  }
  return made
}

interface Checked {
  /** What the command is told to check. */
  readonly id: string
  /** The variables of the key and of the address. */
  readonly key: string
  readonly address: string
  /** What the provider's address ends with, where a package takes it as it stands. */
  readonly version?: string
  readonly rules?: FakeProviderOptions
  readonly settings?: object
}

const compatibleWith = (name: string, rules: FakeProviderOptions = {}): Checked => {
  const { key, base } = compatible[name]!
  return { id: `${name}/fake-large`, key, address: base, rules }
}
const anthropic = { key: 'ANTHROPIC_API_KEY', address: 'ANTHROPIC_BASE_URL' }
const google = { key: 'GOOGLE_API_KEY', address: 'GOOGLE_BASE_URL' }
const openai = { key: 'OPENAI_API_KEY', address: 'OPENAI_BASE_URL' }

/** Every provider of the package, each against the rules of its dialect. */
const checked: readonly Checked[] = [
  { id: 'anthropic/fake-large', ...anthropic },
  { id: 'google/fake-large', ...google },
  { id: 'ollama/fake-large', key: 'OLLAMA_API_KEY', address: 'OLLAMA_HOST' },
  { id: 'openai/fake-large', ...openai, settings: { wire: 'responses' } },
  { id: 'ai-sdk/anthropic/fake-large', ...anthropic, version: '/v1' },
  { id: 'ai-sdk/openai/gpt-5', ...openai, version: '/v1' },
  compatibleWith('openai', { chat: 'extra_content' }),
  ...['azure', 'mistral', 'groq', 'xai', 'lmstudio', 'vllm'].map((name) => compatibleWith(name)),
  ...['together', 'fireworks'].map((name) => compatibleWith(name, { chat: 'extra_content' })),
  compatibleWith('openrouter', { chat: 'reasoning_details' }),
  ...['deepseek', 'moonshotai', 'z-ai'].map((name) =>
    compatibleWith(name, { chat: 'reasoning_content' }),
  ),
]

describe('npm run models', () => {
  it('lists what each key reaches, and what is missing, and no key', async () => {
    const asked = await provider({ models: ['fake-large', 'fake-small'] })
    const { out, code } = await models([], {
      ANTHROPIC_API_KEY: asked.key,
      ANTHROPIC_BASE_URL: asked.url,
      GEMINI_API_KEY: 'sk-wrong-key-of-somebody',
      GOOGLE_BASE_URL: asked.url,
      OLLAMA_HOST: asked.url,
      LMSTUDIO_BASE_URL: 'http://127.0.0.1:9/v1',
      VLLM_BASE_URL: 'http://127.0.0.1:9/v1',
    })
    expect(code).toBe(0)
    expect(out).toContain('anthropic (Anthropic): 2 models\n  anthropic/fake-large\n')
    expect(out).toContain('  ollama/fake-small\n')
    expect(out).toMatch(/^openai: OPENAI_API_KEY is not set$/m)
    expect(out).toMatch(/^google \(Google\): .*did not accept the credentials/m)
    expect(out).toMatch(/^lmstudio \(LM Studio\): .*cannot be reached/m)
    expect(out).toMatch(/^ai-sdk: cannot list its models$/m)
    expect(out).not.toContain(asked.key)
    expect(out).not.toContain('sk-wrong-key-of-somebody')
  })

  it('lists one provider, and says of another what was meant', async () => {
    const asked = await provider({ models: ['one'] })
    const env = { ANTHROPIC_API_KEY: asked.key, ANTHROPIC_BASE_URL: asked.url }
    const one = await models(['anthropic'], env)
    expect(one.out).toBe('anthropic (Anthropic): 1 models\n  anthropic/one\n')
    const other = await models(['antropic'], env)
    expect(other).toEqual({
      out: 'No plugin brings "antropic". Did you mean "anthropic"?\n',
      code: 1,
    })
  })
})

const acme = `
import { defineApp } from '${join(root, 'index.ts')}'
import acme from '${join(root, 'examples/acme-models/index.ts')}'
const app = defineApp({ plugins: [acme] })
export default app
`

describe('npm run models in the folder of an app', () => {
  it('knows the providers of the app, keys that stand in files, and the provider that is meant', async () => {
    const asked = await provider({ models: ['one'] })
    const env = { ACME_API_KEY_FILE: 'key.txt', ACME_BASE_URL: asked.url }
    const files = { 'server.ts': acme, 'key.txt': asked.key }
    const own = await models(['acme'], env, files)
    expect(own).toEqual({ out: 'acme (Acme): 1 models\n  acme/one\n', code: 0 })
    const all = await models([], { ...env, OPENAI_API_KEY: 'sk-unused' }, files)
    expect(all.out).toMatch(/^acme \(Acme\): 1 models\n {2}acme\/one\n/)
    expect(all.out).toMatch(/^anthropic: ANTHROPIC_API_KEY is not set$/m)
    expect((await models(['--check', 'acme/one', '--yes'], env, files)).out).toContain('passed')
  })

  it('says what is wrong with the variables', async () => {
    const { out, code } = await models([], { OPENAI_API_KEY_FILE: '/no/such/key' })
    expect(out).toContain('/no/such/key')
    expect(code).toBe(1)
  })
})

describe('npm run models -- --check', () => {
  it('says how many calls it makes, and makes none before it was told to', async () => {
    const asked = await provider()
    const env = { ANTHROPIC_API_KEY: asked.key, ANTHROPIC_BASE_URL: asked.url }
    const { out, code } = await models(['--check', 'anthropic/fake-large'], env)
    expect(code).toBe(1)
    expect(out).toMatch(/^The contract makes at most \d+ calls of anthropic\/fake-large\./)
    expect(out).toContain('Say --yes')
    expect(asked.requests).toEqual([])
  })

  it.each([
    ['anthropic/x', {}, '"anthropic/x" needs ANTHROPIC_API_KEY, which is not set.'],
    ['antropic/x', {}, '"antropic/x" is of no provider. Did you mean "anthropic/x"?'],
    ['anthropic', {}, '"anthropic" names no model: write anthropic/<name>.'],
    ['ai-sdk/cohere/x', {}, '"ai-sdk/cohere/x" needs the package @ai-sdk/cohere.'],
    ['demo', { MODEL_SETTINGS: '{' }, 'MODEL_SETTINGS'],
  ])('says why %s cannot be asked', async (id, env, words) => {
    const { out, code } = await models(['--check', id, '--yes'], env)
    expect(out).toContain(words)
    expect(code).toBe(1)
  })

  it.each(checked)('passes on a provider of $id $settings', async (one) => {
    const asked = await provider(one.rules)
    const { out, code } = await models(
      ['--check', one.id, '--yes', '--reasoning', 'low'],
      {
        [one.key]: asked.key,
        [one.address]: `${asked.url}${one.version ?? ''}`,
        ...(one.settings && { MODEL_SETTINGS: JSON.stringify({ '*': one.settings }) }),
      },
      {},
      one.id.startsWith('ai-sdk/'),
    )
    expect(out).not.toContain('FAILED')
    expect(out).toMatch(/^passed {3}tool loop$/m)
    expect(out).toMatch(/\d+ checks: the model keeps the contract\.\n$/)
    expect(out).not.toContain(asked.key)
    expect(code).toBe(0)
  })

  it('is tried on every provider of the package', () => {
    const names = bundled.flatMap(({ definition }) => Object.keys(definition.models ?? {}))
    const tried = new Set(checked.map(({ id }) => id.slice(0, id.indexOf('/'))))
    // The demonstration model has no provider.
    expect([...tried, 'demo'].toSorted()).toEqual(names.toSorted())
  })
})

/** A model that does what a good one does, but for one thing. */
class Spoiled implements Model {
  readonly id = 'spoiled'
  readonly #good: WireModel
  readonly #drops: Delta['type'] | undefined
  readonly #isDeaf: boolean
  readonly #isForgetful: boolean

  constructor(
    good: WireModel,
    how: {
      readonly drops?: Delta['type']
      readonly isDeaf?: boolean
      readonly isForgetful?: boolean
    },
  ) {
    this.#good = good
    this.#drops = how.drops
    this.#isDeaf = how.isDeaf ?? false
    this.#isForgetful = how.isForgetful ?? false
  }

  get origin(): string {
    return this.#good.origin
  }

  async *stream(request: ModelRequest): AsyncGenerator<Delta> {
    const { signal } = this.#isDeaf ? new AbortController() : request
    for await (const delta of this.#good.stream({ ...request, signal }))
      if (delta.type === 'provider' && this.#isForgetful) yield unsigned(delta)
      else if (delta.type !== this.#drops) yield delta
  }
}

/** The fields by which providers know that what comes back is what they gave. */
const signed = /^(signature|encrypted_content|thoughtSignature|thought_signature)$/

/** Provider data in which no signature holds any more. */
function unsigned({ data }: Extract<Delta, { type: 'provider' }>): Delta {
  const json = JSON.stringify(data, (name, value) =>
    signed.test(name) && typeof value === 'string' ? 'lost' : value,
  )
  return { type: 'provider', data: JSON.parse(json) }
}

interface At {
  readonly id: string
  readonly name: string
  readonly apiKey: string
  readonly baseUrl: string
}
const chatOf = (name: string) => (at: At) => new ChatModel({ ...at, row: compatible[name]! })

/**
 * How a model of each wire is opened that signs what it wants back. `reasoning_content` has no signature: a server that misses
 * it says so, and is asked again with an empty one.
 */
const wires: readonly (readonly [
  name: string,
  open: (at: At) => WireModel,
  rules?: FakeProviderOptions,
])[] = [
  ['Messages', (at) => new MessagesModel(at)],
  ['Responses', (at) => openResponses({ ...at, row: compatible.openai! })],
  ['generateContent', (at) => new GenerateModel(at)],
  ['chat with extra_content', chatOf('together'), { chat: 'extra_content' }],
  ['chat with reasoning_details', chatOf('openrouter'), { chat: 'reasoning_details' }],
]

const spoiled = [
  ['loses a signature', { isForgetful: true }, 'The model loses what its provider wants back'],
  ['reports no usage', { drops: 'usage' }, 'The model reports no usage.'],
  ['ignores abort', { isDeaf: true }, 'The model ignores the abort'],
] as const

describe('the check of a model', () => {
  it.each(
    wires.flatMap(([wire, open, rules]) =>
      spoiled.map(([what, how, sentence]) => ({ wire, open, rules, what, how, sentence })),
    ),
  )('of $wire that $what says so in a sentence', async ({ open, rules, how, sentence }) => {
    const asked = await provider(rules)
    const lines: string[] = []
    const at = { id: 'maker/fake-large', name: 'fake-large' }
    const isGood = await checkModel({
      open: () => new Spoiled(open({ ...at, apiKey: asked.key, baseUrl: asked.url }), how),
      settings: { reasoning: 'low' },
      key: asked.key,
      say: (line) => void lines.push(line),
    })
    expect(isGood).toBe(false)
    expect(lines.filter((line) => line.startsWith('FAILED')).join('\n')).toContain(sentence)
    expect(lines.join('\n')).not.toContain(asked.key)
  })
})
