import { mkdtempSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogleGenerativeAI } from 'ai-sdk-google-v3'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { fakeProvider, testApp, type FakeProvider } from '#core/testing'

const notes = definePlugin({
  name: 'notes',
  summary: 'Notes words.',
  visibility: 'always',
  tools: {
    note: {
      description: 'Notes a word.',
      effect: 'read',
      input: z.object({ word: z.string() }),
      run: ({ word }) => ({ noted: word }),
    },
  },
})

const note = (word: string) => ({ name: 'note', args: { word } })

/** A turn of three calls in which every answer with calls is signed. */
function answersOn(provider: FakeProvider): void {
  provider.answer(
    { reasoning: ['Two words.', 'Both at once.'], calls: [note('red'), note('blue')] },
    { reasoning: 'One is left.', text: 'One more.', calls: [note('green')] },
    'Noted.',
  )
}

const installed = resolve(import.meta.dirname, '../../node_modules')

/** Lets the process work in a folder in which packages are installed, by their names and the folders of their files. */
function workingWith(packages: Readonly<Record<string, string>>): void {
  const folder = mkdtempSync(join(tmpdir(), 'ai-sdk-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  for (const [name, target] of Object.entries(packages)) {
    const place = join(folder, 'node_modules', name)
    mkdirSync(dirname(place), { recursive: true })
    symlinkSync(target, place)
  }
  const cwd = vi.spyOn(process, 'cwd').mockReturnValue(folder)
  onTestFinished(() => cwd.mockRestore())
}

const versions = [
  { version: 4, folder: (name: string) => join(installed, '@ai-sdk', name) },
  { version: 3, folder: (name: string) => join(installed, `ai-sdk-${name}-v3`) },
] as const
const models = [
  { maker: 'anthropic', id: 'ai-sdk/anthropic/fake-large', path: '/v1' },
  { maker: 'google', id: 'ai-sdk/google/fake-large', path: '/v1beta' },
  { maker: 'openai', id: 'ai-sdk/openai/gpt-5', path: '/v1' },
] as const

describe.each(versions)('a turn of three calls by a package of version $version', ({ folder }) => {
  it.each(models)('$id finishes, and so does the next after a crash', async (model) => {
    const { maker, id, path } = model
    workingWith({ [`@ai-sdk/${maker}`]: folder(maker) })
    await using provider = await fakeProvider()
    const settings = { reasoning: 'low', baseUrl: provider.url + path, keyFrom: 'SDK_KEY' }
    await using app = await testApp({
      plugins: [notes],
      env: { MODEL: id, SDK_KEY: provider.key, MODEL_SETTINGS: JSON.stringify({ '*': settings }) },
    })
    answersOn(provider)
    const first = await (await app.user('ann')).say('Note it')
    expect(provider.refusals).toEqual([])
    expect(first).toMatchObject({ status: 'finished', text: expect.stringContaining('Noted.') })
    await app.crash()
    await app.again()
    answersOn(provider)
    const { sessionId } = first
    const second = await (await app.user('ann')).say('And again', { sessionId })
    expect(provider.refusals).toEqual([])
    expect(second.status).toBe('finished')
    expect(provider.remaining).toBe(0)
    // The third call carries what the first two answers gave to be sent back.
    expect(provider.requests.at(-1)?.text).toMatch(/signature|thoughtSignature|encrypted_content/)
    expect(app.log.join('\n')).not.toContain(provider.key)
  })
})

describe('a language model of the AI SDK that an app gives as its model', () => {
  it.each([
    ['4', (apiKey: string, url: string) => createAnthropic({ apiKey, baseURL: `${url}/v1` })],
    [
      '3',
      (apiKey: string, url: string) =>
        createGoogleGenerativeAI({ apiKey, baseURL: `${url}/v1beta` }),
    ],
  ] as const)('of version %s answers a turn of three calls', async (_, made) => {
    await using provider = await fakeProvider()
    const model = made(provider.key, provider.url)('fake-large')
    await using app = await testApp({ plugins: [notes], model })
    answersOn(provider)
    const said = await (await app.user('bob')).say('Note it')
    expect(provider.refusals).toEqual([])
    expect(said).toMatchObject({ status: 'finished', text: expect.stringContaining('Noted.') })
  })

  it('of version 2 stops the boot', async () => {
    const old = {
      specificationVersion: 'v2',
      provider: 'old',
      modelId: 'one',
      doStream: () => Promise.reject(new Error('never asked')),
    }
    await expect(testApp({ plugins: [], model: old })).rejects.toThrow(
      /"old\/one" speaks v2 of the AI SDK's specification, not v3 or v4\./,
    )
  })
})

describe('MODEL that names a package', () => {
  const boot = (MODEL: string) => testApp({ plugins: [notes], env: { MODEL } })

  it('that is not installed stops the boot with the command that installs it', async () => {
    workingWith({})
    const failed = await boot('ai-sdk/cohere/x').catch((error: Error) => error)
    expect(String(failed)).toContain('"ai-sdk/cohere/x" needs the package @ai-sdk/cohere.')
    expect(JSON.stringify(failed)).toContain('npm install @ai-sdk/cohere')
  })

  it.each(['ai-sdk/cohere', 'ai-sdk/../../x/y', 'ai-sdk/.hidden/x', 'ai-sdk/@/x/y'])(
    'in the wrong way, %s, is told how a name reads',
    async (name) => {
      workingWith({})
      await expect(boot(name)).rejects.toThrow(`"${name}" names no model of a package.`)
    },
  )

  it('imports it at the first call, and no package that it does not name', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'told-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const file = (name: string, exports: string) => {
      mkdirSync(join(folder, name))
      const manifest = { name: `@ai-sdk/${name}`, type: 'module', exports: './main.js' }
      writeFileSync(join(folder, name, 'package.json'), JSON.stringify(manifest))
      writeFileSync(join(folder, name, 'main.js'), exports)
    }
    const parts = [
      { type: 'text-delta', id: '0', delta: 'Hello from a package.' },
      { type: 'finish', finishReason: { unified: 'stop' }, usage: {} },
    ]
    const model = `{
      specificationVersion: 'v4', provider: 'told', modelId: 'x',
      doStream: async () => ({ stream: ReadableStream.from(${JSON.stringify(parts)}) }),
    }`
    const told = `globalThis.importedPackages = (globalThis.importedPackages ?? 0) + 1\n`
    file(
      'told-apart',
      `${told}export const toldApart = () => (${model})\ntoldApart.languageModel = toldApart`,
    )
    file('other', `${told}throw new Error('imported')`)
    workingWith({
      '@ai-sdk/told-apart': join(folder, 'told-apart'),
      '@ai-sdk/other': join(folder, 'other'),
    })
    await using app = await boot('demo,ai-sdk/told-apart/x')
    const user = await app.user('cem')
    await user.say('Hello')
    expect(globalThis).not.toHaveProperty('importedPackages')
    const said = await user.say('Hello', { body: { model: 'ai-sdk/told-apart/x' } })
    expect(said.text).toBe('Hello from a package.')
    expect(globalThis).toHaveProperty('importedPackages', 1)
  })
})
