import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { testEngine } from '../support/engine.ts'
import { anybody } from '../support/anybody.ts'
import { modelScript, type Answer } from '../support/model-script.ts'

const plugin = (name: string, more: object = {}) =>
  definePlugin({
    name,
    summary: `All about ${name}.`,
    prompt: () => `${name} is loaded: ${'é'.repeat(10)}`,
    tools: {
      [`use_${name}`]: {
        description: 'Uses.',
        effect: 'read',
        input: z.object({}),
        run: () => name,
      },
    },
    ...more,
  })
const load = (...names: string[]): Answer => ({
  calls: [{ name: 'load_capability', args: { names } }],
})
const offered = (model: ReturnType<typeof modelScript>, nth = -1) =>
  model.requests
    .at(nth)!
    .tools.map(({ name }) => name)
    .slice(2)
const caller = { user: anybody('did:key:z6MkAmina'), room: 'room', requestId: 'r' }

/** Loads what the user names, then answers. */
const loader = () =>
  modelScript(({ messages }) => {
    const { role, content } = messages.at(-1)!
    return role === 'user' && content.startsWith('load ')
      ? load(...content.split(' ').slice(1))
      : 'Well.'
  })

describe('what a thread has loaded', () => {
  it('is there in its later turns, and in no other thread', async () => {
    const model = loader()
    await using engine = await testEngine({ plugins: [plugin('maps'), plugin('mail')], model })
    await Promise.all([engine.turn('load maps', 'a'), engine.turn('load mail', 'b')])
    await engine.turn('Hello', 'a')
    expect(offered(model)).toEqual(['use_maps'])
    await engine.turn('Hello', 'b')
    expect(offered(model)).toEqual(['use_mail'])
    await engine.turn('Hello', 'c')
    expect(offered(model)).toEqual([])
    await engine.turn('load mail', 'a')
    expect(offered(model)).toEqual(['use_maps', 'use_mail'])
  })

  it('survives a restart', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'loaded-'))
    try {
      const plugins = [plugin('maps')]
      {
        await using engine = await testEngine({ plugins, model: loader(), folder })
        await engine.turn('load maps')
      }
      const model = loader()
      await using engine = await testEngine({ plugins, model, folder })
      await engine.turn('Hello')
      expect(offered(model)).toEqual(['use_maps'])
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

  it('survives a model that fails and a person who stops', async () => {
    const model = modelScript([load('maps'), { then: new Error('no') }, 'Well.'])
    await using engine = await testEngine({ plugins: [plugin('maps')], model })
    expect((await engine.turn('Go')).end.status).toBe('failed')
    await engine.turn('Hello')
    expect(offered(model)).toEqual(['use_maps'])
  })

  it('follows the head of its session, whatever the clocks of the servers say', async () => {
    const model = loader()
    await using engine = await testEngine({
      plugins: [plugin('maps'), plugin('mail')],
      model,
    })
    await engine.turn('load maps')
    const head = await engine.head()
    // A later checkpoint of a process that had lost the run: its id is the greater one.
    await engine.turn('load mail')
    await engine.runs.moveHead('session-1', head!)
    await engine.turn('Hello')
    expect(offered(model)).toEqual(['use_maps'])
  })

  it('grows by several calls of one step', async () => {
    const model = modelScript([
      {
        calls: [load('maps'), load('mail', 'nothing')].flatMap(
          (each) => (each as { calls: [] }).calls,
        ),
      },
      'Well.',
    ])
    await using engine = await testEngine({ plugins: [plugin('maps'), plugin('mail')], model })
    await engine.turn('Go')
    expect(offered(model)).toEqual(['use_maps', 'use_mail'])
    expect(model.requests[1]!.messages.at(-1)!.content).toContain('"unknown":[{"name":"nothing"')
  })

  it('is shown with the plugin’s own lines in the prompt, from the next model call on', async () => {
    const model = modelScript([load('maps'), 'Well.'])
    await using engine = await testEngine({ plugins: [plugin('maps')], model })
    await engine.turn('Go')
    const prompts = model.requests.map(({ messages }) => messages[0]!.content)
    expect(prompts[0]).toContain('- maps: All about maps.')
    expect(prompts[0]).not.toContain('maps is loaded')
    expect(prompts[1]).toContain('maps is loaded')
  })
})

describe('capabilities loaded by hand', () => {
  it('between two turns are there in the next one', async () => {
    const model = loader()
    await using engine = await testEngine({ plugins: [plugin('maps'), plugin('mail')], model })
    await engine.turn('load mail')
    const { result } = await engine.load(['maps', 'map'])
    expect(result).toMatchObject({
      loaded: [{ name: 'maps' }],
      unknown: [{ name: 'map', didYouMean: 'maps' }],
    })
    await engine.turn('Hello')
    expect(offered(model)).toEqual(['use_maps', 'use_mail'])
  })

  it('before the first turn are there in it', async () => {
    const model = loader()
    await using engine = await testEngine({ plugins: [plugin('maps')], model })
    await engine.runs.sessions.ensure('did:key:z6MkAmina', { id: 'session-1' })
    await engine.load(['maps'])
    await engine.turn('Hello')
    expect(offered(model)).toEqual(['use_maps'])
  })

  it('while a turn is under way are there in its next step', async () => {
    let go!: () => void
    const waiter = plugin('waiter', {
      visibility: 'always',
      tools: {
        wait: {
          description: 'Waits.',
          effect: 'read',
          input: z.object({}),
          run: () => new Promise<void>((resolve) => (go = resolve)),
        },
      },
    })
    const model = modelScript([{ calls: [{ name: 'wait' }] }, 'Well.', 'Yes.'])
    await using engine = await testEngine({ plugins: [waiter, plugin('maps')], model })
    const run = await engine.begin('Go')
    const carried = run.ended
    await run.hears('tool_call')
    const { checkpoint } = await engine.load(['maps'])
    expect(checkpoint).toBeUndefined()
    go()
    await carried
    expect(offered(model)).toEqual(['wait', 'use_maps'])
    await engine.turn('Hello')
    expect(offered(model)).toEqual(['wait', 'use_maps'])
  })
})

describe('the list of capabilities', () => {
  it('tells of every plugin its state, its tools, its routes and its share of the prompt', async () => {
    const needy = definePlugin({ name: 'needy', summary: 'n', env: { NEEDY_KEY: z.string() } })
    const maps = plugin('maps', {
      category: 'data',
      whenToUse: ['The user asks for the way.'],
      examples: ['How do I get to the well?'],
      routes: { 'GET /maps': { auth: 'public', summary: 'Maps.', run: () => 1 } },
    })
    const travel = plugin('trips', { requires: [maps] })
    const plugins = [maps, travel, needy, plugin('quiet', { visibility: 'silent' })]
    await using engine = await testEngine({ plugins, model: loader() })
    await engine.turn('load maps')
    const session = { id: 'session-1', checkpoint: await engine.head() }
    const { plugins: listed } = await engine.agent.capabilities(caller, session)
    const line = (name: string) => Buffer.byteLength(`- ${name}: All about ${name}.`)
    expect(listed.find(({ name }) => name === 'maps')).toMatchObject({
      name: 'maps',
      summary: 'All about maps.',
      visibility: 'on-demand',
      state: 'available',
      loaded: true,
      stability: 'stable',
      category: 'data',
      requires: [],
      whenToUse: ['The user asks for the way.'],
      examples: ['How do I get to the well?'],
      promptBytes: line('maps') + Buffer.byteLength(`maps is loaded: ${'é'.repeat(10)}`),
      tools: [
        { name: 'use_maps', effect: 'read', description: 'Uses.', parameters: { type: 'object' } },
      ],
      routes: [{ route: 'GET /maps', auth: 'public', summary: 'Maps.' }],
    })
    expect(listed.find(({ name }) => name === 'trips')).toMatchObject({
      loaded: false,
      requires: ['maps'],
      examples: [],
      promptBytes: line('trips'),
    })
    expect(listed.find(({ name }) => name === 'needy')).toMatchObject({
      state: 'excluded',
      missing: ['NEEDY_KEY'],
      loaded: false,
    })
    expect(listed.find(({ name }) => name === 'quiet')).toMatchObject({
      promptBytes: 0,
      loaded: false,
    })
    expect((await engine.agent.capabilities(caller)).plugins[0]).toMatchObject({ loaded: false })
  })
})

describe('the system prompt', () => {
  it('names the day where the user is', async () => {
    const model = modelScript(() => 'Well.')
    await using engine = await testEngine({ model })
    for (const timezone of ['Africa/Lusaka', 'Nowhere/Land', undefined])
      await engine.turn({ message: 'Hi', timezone })
    const days = model.requests.map(({ messages }) => messages[0]!.content.split('\n').at(-1))
    expect(days[0]).toMatch(/^Today is \w+,? \d+ \w+ \d{4} \(Africa\/Lusaka\)\.$/)
    expect(days.slice(1).every((day) => day!.endsWith('(UTC).'))).toBe(true)
  })

  it('stands without the lines of a plugin that fails to write them', async () => {
    const broken = plugin('broken', {
      visibility: 'always',
      prompt: () => {
        throw new Error('no words')
      },
    })
    const model = modelScript(['Well.'])
    await using engine = await testEngine({ plugins: [broken], model })
    expect((await engine.turn('Hi')).end.status).toBe('finished')
    expect(engine.log.join('')).toContain('no words')
  })
})

it('a session that is deleted leaves no checkpoint', async () => {
  await using engine = await testEngine({ plugins: [plugin('maps')], model: loader() })
  await engine.turn('load maps')
  await engine.runs.deleteSession('did:key:z6MkAmina', 'session-1')
  const rows = await engine.store.db
    .withTables<{ checkpoints: {} }>()
    .selectFrom('checkpoints')
    .selectAll()
    .execute()
  expect(rows).toEqual([])
})
