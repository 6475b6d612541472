import { setTimeout as pause } from 'node:timers/promises'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { definePlugin, RuntimeError, type AppOptions, type Model, type OfferSettings } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { z } from 'zod'
import { faultsOf } from '../support/model-of.ts'

const key = { OPENAI_API_KEY: 'sk-known-1' }

/** A plugin that brings models, and what it was asked to open. */
function acme(more: { standIn?: boolean; open?: (name: string) => Model } = {}) {
  const opened: { name: string; settings: OfferSettings; key?: string; env: unknown }[] = []
  const plugin = definePlugin({
    name: 'models-acme',
    summary: 'Models of Acme.',
    visibility: 'silent',
    env: {
      ACME_API_KEY: z.string().optional().meta({ secret: true }),
      ACME_TOKEN: z.string().optional().meta({ secret: true }),
    },
    models: {
      acme: {
        label: 'Acme',
        standIn: more.standIn,
        needs: more.standIn ? [] : [['ACME_API_KEY', 'ACME_TOKEN']],
        prefixes: ['roadrunner-'],
        fault: (name) =>
          name === 'broken'
            ? { message: '"acme/broken" needs a package.', hint: 'npm install it' }
            : undefined,
        async open(name, { settings, key, env }) {
          opened.push({ name, settings, key, env })
          return more.open?.(name) ?? scriptedModel(['Beep.', 'Beep.'], { id: `acme/${name}` })
        },
      },
    },
  })
  return { plugin, opened }
}

const texts = async (env: Record<string, string>, options: Partial<AppOptions> = {}) =>
  (await faultsOf({ plugins: [], env, ...options })).map(
    ({ code, message, hint }) => `${code}: ${message}${hint ? ` ${hint}` : ''}`,
  )

describe('MODEL that cannot be used', () => {
  it.each<[string, RegExp]>([
    [' , ,', /^ENV_INVALID: MODEL is empty\./],
    [
      'acne/x',
      /^ENV_INVALID: MODEL names "acne\/x", which no plugin brings\. Did you mean "acme\/x"\?/,
    ],
    ['roadrunner-2', /^ENV_INVALID: MODEL is "roadrunner-2": did you mean "acme\/roadrunner-2"\?/],
    ['x', /^ENV_INVALID: MODEL is "x", which is no model\./],
    ['acme', /^ENV_INVALID: MODEL is "acme", which names no model\. Write acme\/<name>\./],
    [
      'acme/x',
      /MODEL names "acme\/x", but ACME_API_KEY is not set\. Set ACME_API_KEY or ACME_TOKEN\./,
    ],
    ['acme/a|acme/b|acme/c|acme/d|acme/e|acme/f', /a chain of 6 models; it may have 5\./],
    ['acme/a|acme/a', /which names "acme\/a" twice\./],
    ['acme/a,acme/a', /MODEL offers "acme\/a" twice\./],
    ['a=acme/a,a=acme/b', /MODEL offers "a" twice\./],
    ['a b=acme/a', /MODEL has the alias "a b", which cannot be used\./],
    ['acme/a||acme/b', /which is no offer\./],
    [
      Array.from({ length: 51 }, (_, n) => `acme/${n}`).join(),
      /MODEL has 51 offers, and may have 50\./,
    ],
  ])('%s', async (MODEL, text) => {
    const found = await texts({ MODEL }, { plugins: [acme().plugin] })
    expect(found.join('\n')).toMatch(text)
  })

  it('has every fault told at once, and never a key', async () => {
    const env = { MODEL: 'acme/broken,openai/x,acme/y', ACME_TOKEN: 'token-known-1' }
    const found = await texts(env, { plugins: [acme().plugin] })
    expect(found).toEqual([
      'ENV_INVALID: "acme/broken" needs a package. npm install it',
      expect.stringContaining('MODEL names "openai/x", which no plugin brings.'),
    ])
    expect(found.join()).not.toContain('token-known-1')
  })

  it('names of an owner twice are a fault of the boot', async () => {
    const other = definePlugin({
      name: 'other',
      summary: 'Models of Acme, too.',
      models: { acme: { label: 'Acme', open: () => scriptedModel([]) } },
    })
    expect(await texts({ MODEL: 'acme/x' }, { plugins: [acme().plugin, other] })).toContainEqual(
      expect.stringMatching(/^MODEL_CONFLICT: Both models-acme and other bring models of "acme"/),
    )
  })

  it.each([
    [{ Acme: {} }, 'has a provider "Acme"'],
    [{ acme: { label: 'x', open() {}, opne: 1 } }, 'Did you mean "open"?'],
    [{ acme: { open() {} } }, 'has a wrong "label"'],
    [7, '"models" is no object'],
  ])('a section that is wrong is a fault: %j', async (models, text) => {
    const plugin = definePlugin({
      name: 'models-wrong',
      summary: 'Wrong.',
      models: models as never,
    })
    expect((await texts({}, { plugins: [plugin] })).join()).toContain(text)
  })
})

describe('what answers', () => {
  it('without MODEL is the stand-in, and the log says what the keys could do', async () => {
    await using app = await testApp({ plugins: [], env: key })
    const log = app.log.join('\n')
    expect(log).toContain('model: Demonstration model (no key, no network) (demo)')
    expect(log).toContain('MODEL=openai/<name> would use OPENAI_API_KEY')
    expect(log).not.toContain('sk-known-1')
  })

  it('is nothing where no plugin brings a model, and the boot stops', async () => {
    expect(await texts({}, { models: false })).toEqual([
      expect.stringMatching(/^MODEL_MISSING: No model answers/),
    ])
  })

  it('is opened at the first call, once for calls at the same time', async () => {
    const { plugin, opened } = acme()
    const env = { MODEL: 'acme/fast/2:free', ACME_API_KEY: 'k' }
    await using app = await testApp({ plugins: [plugin], env })
    expect(opened).toEqual([])
    const users = await Promise.all([app.user(), app.user()])
    await Promise.all(users.map((user) => user.say('Hi')))
    expect(opened.map(({ name }) => name)).toEqual(['fast/2:free'])
  })

  it('may come from a function, which runs after the setup', async () => {
    const made = definePlugin({
      name: 'models-made',
      summary: 'Models of what the setup found.',
      setup: async () => ({ greeting: 'From setup.' }),
      models: ({ self }) => ({
        made: { label: 'Made', open: () => scriptedModel([self.greeting], { id: 'made/x' }) },
      }),
    })
    await using app = await testApp({ plugins: [made], env: { MODEL: 'made/x' } })
    expect((await (await app.user()).say('Hi')).text).toBe('From setup.')
    expect(await texts({ MODEL: 'made/x,made/,other/z' }, { plugins: [made] })).toEqual([
      expect.stringContaining('MODEL is "made/", which names no model.'),
      expect.stringContaining('MODEL names "other/z"'),
    ])
  })

  it('may come from a function whose setup takes longer than other setups may', async () => {
    const slow = definePlugin({
      name: 'models-slow',
      summary: 'Models of what a long setup found.',
      setup: () => pause(1500),
      models: () => ({
        slow: { label: 'Slow', open: () => scriptedModel(['At last.'], { id: 'slow/x' }) },
      }),
    })
    await using app = await testApp({ plugins: [slow], env: { MODEL: 'slow/x' } })
    expect((await (await app.user()).say('Hi')).text).toBe('At last.')
  })

  it('that cannot be opened fails its turn, at one try, and is opened again with the next', async () => {
    let times = 0
    const { plugin } = acme({
      standIn: true,
      open: () => {
        if (++times <= 2) throw new Error('no disk')
        return scriptedModel(['Back.'], { id: 'acme' })
      },
    })
    await using app = await testApp({ plugins: [plugin] })
    const user = await app.user()
    const { sessionId } = (await user.post('/sessions')).body
    const photo = [{ name: 'a.txt', data: 'YQ==' }]
    for (const [nth, attachments] of [[], photo].entries()) {
      const { body } = await user.post(`/messages/${sessionId}`, { message: 'Hi', attachments })
      expect(body).toMatchObject({ code: 'MODEL_UNUSABLE' })
      expect(times).toBe(nth + 1)
    }
    expect((await user.say('Hi')).text).toBe('Back.')
    expect(times).toBe(3)
  })

  it('that cannot be opened gives way to the next of its chain, and is tried once', async () => {
    let times = 0
    const { plugin } = acme({
      open: (name) => {
        if (name === 'b') return scriptedModel(['From b.'], { id: 'acme/b' })
        times++
        throw new RuntimeError('MODEL_UNREACHABLE', 'Nobody is there.')
      },
    })
    const env = { MODEL: 'acme/a|acme/b', ACME_API_KEY: 'k' }
    await using app = await testApp({ plugins: [plugin], env })
    const said = await (await app.user()).say('Hi')
    expect(said.text).toBe('From b.')
    expect(said.of('model')).toMatchObject([{ model: 'acme/b', code: 'MODEL_UNREACHABLE' }])
    expect(times).toBe(1)
  })
})

describe('MODEL_SETTINGS', () => {
  const asked = (settings: unknown) => JSON.stringify(settings)

  it('are found by id and pattern, later lines over earlier ones, and reach the request', async () => {
    const model = scriptedModel(['Hi.'], { id: 'acme/big' })
    const { plugin, opened } = acme({ open: () => model })
    await using app = await testApp({
      plugins: [plugin],
      modelSettings: { '*': { temperature: 1, topP: 0.5 } },
      env: {
        MODEL: 'top=acme/big',
        ACME_KEY_2: 'key-known-2',
        MODEL_SETTINGS: asked({
          'acme/*': { temperature: 0.2, keyFrom: 'ACME_KEY_2' },
          top: { reasoning: 'low', contextWindow: 9000, body: { seed: 7 } },
          'acne/*': { temperature: 0 },
        }),
      },
    })
    await (await app.user()).say('Hi')
    expect(opened).toMatchObject([{ name: 'big', key: 'key-known-2' }])
    expect(model.requests[0]?.settings).toEqual({
      temperature: 0.2,
      topP: 0.5,
      reasoning: 'low',
      body: { seed: 7 },
    })
    expect(app.log.join('\n')).toContain('The settings of "acne/*" belong to no model of MODEL.')
    expect(app.log.join('\n')).not.toContain('key-known-2')
  })

  it('may be a file', async () => {
    const path = join(mkdtempSync(join(tmpdir(), 'settings-')), 'models.json')
    writeFileSync(path, asked({ demo: { label: 'My model' } }))
    await using app = await testApp({ plugins: [], env: { MODEL_SETTINGS: path } })
    expect(app.log.join('\n')).toContain('model: My model (demo)')
  })

  it.each<[string, RegExp]>([
    ['{oh no', /^ENV_INVALID: MODEL_SETTINGS is no JSON\./],
    ['/no/such/file', /MODEL_SETTINGS names a file that cannot be read \(ENOENT\)\./],
    [
      '{"demo":{"temprature":1}}',
      /"demo" has no setting "temprature"\. Did you mean "temperature"\?/,
    ],
    [
      '{"demo":{"price":{"input":-1,"output":1}}}',
      /"demo\.price\.input" cannot be used: no price below 0/,
    ],
    ['{"demo":{"body":{"messages":[]}}}', /"demo\.body" cannot be used: it never names messages/],
    ['{"demo":{"reasoning":"lots"}}', /"demo\.reasoning" cannot be used/],
    ['{"demo":{"headers":{"x-key":7}}}', /"demo\.headers\.x-key" cannot be used/],
    ['{"demo":7}', /"demo" cannot be used/],
    ['{"demo":{"__proto__":{"temperature":1}}}', /"demo" has no setting "__proto__"/],
    ['{"demo":{"constructor":{}}}', /"demo" has no setting "constructor"/],
    [
      '{"demo":{"price":{"input":1,"output":1,"__proto__":{"input":-1}}}}',
      /"demo\.price" has no setting "__proto__"/,
    ],
  ])('stop the boot when they are %s', async (MODEL_SETTINGS, text) => {
    expect((await texts({ MODEL_SETTINGS })).join('\n')).toMatch(text)
  })

  it('change no object of the process, whatever their keys are', async () => {
    const MODEL_SETTINGS =
      '{"__proto__":{"temperature":1},"demo":{"body":{"__proto__":{"messages":[1]}},"headers":{"__proto__":"x"}}}'
    await using app = await testApp({ plugins: [], env: { MODEL_SETTINGS } })
    expect((await (await app.user()).say('Hello')).status).toBe('finished')
    expect(app.log.join()).toContain('The settings of "__proto__" belong to no model of MODEL.')
    for (const field of ['temperature', 'messages']) expect(field in {}).toBe(false)
  })

  it('may be those that docs/models.md shows, and the page names every one', async () => {
    const page = readFileSync(new URL('../../docs/models.md', import.meta.url), 'utf8')
    const [, MODEL_SETTINGS = ''] = /```json\n(\{.*?\})\n```/s.exec(page) ?? []
    const env = { ...key, MODEL: 'openai/x,fast=demo', MODEL_SETTINGS }
    await using app = await testApp({ plugins: [], env })
    const { models } = (await app.get('/models')).body
    expect(models).toContainEqual(expect.objectContaining({ id: 'fast', label: 'Fast' }))
    const [refused] = await texts({ MODEL_SETTINGS: '{"demo":{"no-setting":1}}' })
    const [, all = ''] = /The settings are (.*)\./.exec(refused ?? '') ?? []
    expect(all.split(', ').length).toBeGreaterThan(15)
    for (const name of all.split(', ')) expect(page).toContain(`\`${name}\``)
  })

  it('want the variable that they name', async () => {
    const env = { MODEL: 'openai/x', MODEL_SETTINGS: asked({ '*': { keyFrom: 'MY_KEY' } }) }
    expect(await texts(env)).toEqual([
      expect.stringContaining('MODEL names "openai/x", but MY_KEY is not set.'),
    ])
  })
})
