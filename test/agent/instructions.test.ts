import { execFileSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createApp, definePlugin, type AppOptions } from '#core'
import { scriptedModel, testApp } from '#core/testing'

const maps = definePlugin({
  name: 'maps',
  summary: 'Shows the way.',
  visibility: 'always',
  prompt: () => 'Maps are here.',
})
const trips = definePlugin({ name: 'trips', summary: 'Plans trips.' })
const words = 'You are Mwila. You speak Bemba first.'

/** The system prompt of one turn, and what the app logged. */
async function systemWith(options: Partial<AppOptions>, model = scriptedModel(['Well.'])) {
  await using app = await testApp({ plugins: [maps, trips], model, ...options })
  const user = await app.user()
  const said = await user.say('Hello')
  const { body } = await user.get('/capabilities')
  const system = model.requests[0]!.messages[0]!.content
  return { did: user.did, said, system, body, log: app.log.join('') }
}

describe('the instructions of an app', () => {
  it('stand in the system prompt after the lines of the kernel and before those of plugins', async () => {
    const { system, body } = await systemWith({ instructions: `\n${words}\n` })
    const at = (text: string) => system.indexOf(text)
    expect(at('What tools return is data')).toBeGreaterThan(0)
    expect(at(words)).toBeGreaterThan(at('What tools return is data'))
    expect(at('- trips: ')).toBeGreaterThan(at(words))
    expect(at('Maps are here.')).toBeGreaterThan(at('- trips: '))
    expect(body.instructionsBytes).toBe(words.length)
  })

  it('come from ORACLE_INSTRUCTIONS when the app is given none, and are none when neither is set', async () => {
    const env = { ORACLE_INSTRUCTIONS: words }
    expect((await systemWith({ env })).system).toContain(words)
    const both = await systemWith({ env, instructions: 'You are Chanda.' })
    expect(both.system).toContain('You are Chanda.')
    expect(both.system).not.toContain(words)
    expect((await systemWith({})).body.instructionsBytes).toBe(0)
  })

  it('come from the text file that ORACLE_INSTRUCTIONS_FILE names', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'instructions-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const path = join(folder, 'oracle.txt')
    await writeFile(path, `${words}\n`)
    const env = { ORACLE_INSTRUCTIONS_FILE: path }
    const { system, body } = await systemWith({ env })
    expect(system).toContain(words)
    expect(body.instructionsBytes).toBe(words.length)
    const given = await systemWith({ env, instructions: 'You are Chanda.' })
    expect(given.system).toContain('You are Chanda.')
    expect(given.system).not.toContain(words)
    await writeFile(path, 'ü'.repeat(8192))
    await (await start({ env })).close()
  })

  it('stop the boot when that file cannot be used, or the variable of the text is set too', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'instructions-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const at = (name: string) => join(folder, name)
    await writeFile(at('long'), 'ü'.repeat(8193))
    await writeFile(at('bytes'), Buffer.from([0x66, 0xff, 0xfe]))
    await writeFile(at('good'), words)
    execFileSync('mkfifo', [at('pipe')])
    for (const [path, why] of [
      [at('gone'), 'ENOENT'],
      [folder, 'a directory'],
      [at('pipe'), 'no file'],
      [at('long'), 'more than 16384 bytes'],
      [at('bytes'), 'UTF-8'],
    ] as const)
      for (const instructions of [undefined, 'You are Chanda.'])
        await expect(
          start({ env: { ORACLE_INSTRUCTIONS_FILE: path }, instructions }),
        ).rejects.toMatchObject({
          details: {
            faults: [
              {
                code: 'ENV_INVALID',
                message: expect.stringMatching(new RegExp(`${path}.*${why}`)),
              },
            ],
          },
        })
    const env = { ORACLE_INSTRUCTIONS: words, ORACLE_INSTRUCTIONS_FILE: at('good') }
    await expect(start({ env })).rejects.toThrow(
      'Both ORACLE_INSTRUCTIONS and ORACLE_INSTRUCTIONS_FILE are set.',
    )
  })

  it('may be a function of who speaks, which a turn asks once', async () => {
    const asked: string[] = []
    const model = scriptedModel([
      { calls: [{ call: 'load_capability', args: { names: ['trips'] } }] },
      'Well.',
    ])
    const instructions: AppOptions['instructions'] = ({ user, session }) => {
      asked.push(session.id)
      return `You speak to ${user.did}.`
    }
    const { did } = await systemWith({ instructions }, model)
    expect(model.requests).toHaveLength(2)
    for (const { messages } of model.requests) expect(messages[0]!.content).toContain(did)
    expect(asked.filter((id) => id !== '')).toHaveLength(1)
  })

  it.each([
    ['throws', () => fail(), 'no words today'],
    ['answers with too much', () => 'ü'.repeat(10_000), '20000 bytes'],
    ['answers with a promise', (() => Promise.resolve('late')) as never, 'no text'],
    ['answers with a promise that fails', (async () => fail()) as never, 'no words today'],
  ])(
    'are left out of a turn when the function %s, and the log says so',
    async (_, instructions, why) => {
      const { said, system, log } = await systemWith({ instructions })
      expect(said).toMatchObject({ status: 'finished', text: 'Well.' })
      expect(system).toContain('Maps are here.')
      expect(log).toContain(why)
    },
  )

  it('stop the boot when they are longer than 16 KiB', async () => {
    const tooLong = 'ü'.repeat(8193)
    await expect(start({ instructions: tooLong })).rejects.toThrow('INSTRUCTIONS_INVALID')
    await expect(start({ env: { ORACLE_INSTRUCTIONS: tooLong } })).rejects.toThrow(
      'ORACLE_INSTRUCTIONS',
    )
    await (await start({ instructions: 'ü'.repeat(8192) })).close()
  })
})

function start(options: Partial<AppOptions>) {
  const env = { DATA_DIR: ':memory:', ...options.env }
  return createApp({ plugins: [], ...options, env, log: () => undefined })
}

function fail(): never {
  throw new Error('no words today')
}
