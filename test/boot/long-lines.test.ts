import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { definePlugin } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { RuntimeError } from '../../core/errors.ts'
import { longestLine, mayRepeat, openLog } from '../../core/runtime/base/log.ts'

/** What a log writes, with a secret that it must not write. */
function logged(pretty = false) {
  const lines: string[] = []
  const write = (line: string) => void lines.push(line)
  const { log } = openLog({ level: 'info', pretty, secrets: ['tell-nobody'], write })
  return { log, lines }
}

const long = 'x'.repeat(1_000_000)

describe('a line of the log', () => {
  it('that is not too long stays as it is', () => {
    const { log, lines } = logged()
    const words = 'y'.repeat(10_000)
    log.info({ words }, 'short enough')
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ words, msg: 'short enough' })
  })

  it.each([
    ['a sentence', { err: undefined }, long],
    ['a field', { body: long }, 'A body came'],
    [
      'many fields',
      Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`f${i}`, i])),
      'Fields',
    ],
    ['a long list', { list: Array.from({ length: 100_000 }, (_, i) => `item ${i}`) }, 'A list'],
    ['long names', { [long]: 1, [`${long}2`]: 2 }, 'Names'],
    ['many bytes in few characters', { body: '水'.repeat(50_000) }, 'Bytes'],
    ['an error', { err: new Error(long) }, 'It failed'],
    ['a cause', { err: new Error('outer', { cause: new Error(long) }) }, 'It failed'],
  ])('is at most 16 KiB of JSON, marked as cut: %s', (_, fields, sentence) => {
    const { log, lines } = logged()
    log.warn(fields, sentence)
    const [line = ''] = lines
    expect(Buffer.byteLength(line)).toBeLessThanOrEqual(longestLine)
    expect(line.endsWith('\n')).toBe(true)
    expect(line).toContain('cut')
    expect(JSON.parse(line)).toMatchObject({ level: 40, msg: expect.any(String) })
  })

  it('keeps the beginning of a stack, which says where', () => {
    const { log, lines } = logged()
    const err = new Error('short')
    err.stack = `Error: short\n    at here (file.ts:1:1)\n${'    at there (other.ts:2:2)\n'.repeat(10_000)}`
    log.error({ err }, 'It failed')
    const { stack } = JSON.parse(lines[0] ?? '').err
    expect(stack).toMatch(/^Error: short\n {4}at here/)
    expect(stack).toMatch(/\[cut\]$/)
  })

  it('holds no secret, wherever it was cut', () => {
    for (const at of [4_090, 4_086, 1_020]) {
      const { log, lines } = logged()
      log.info({ body: `${'z'.repeat(at)}tell-nobody${long}` }, 'A body came')
      expect(lines[0]).not.toContain('tell-n')
    }
  })

  it('is cut for people as well', () => {
    const { log, lines } = logged(true)
    log.error({ err: new Error(long), body: long }, 'It failed')
    expect(Buffer.byteLength(lines.join(''))).toBeLessThanOrEqual(longestLine)
    expect(lines[0]).toContain('[cut]')
  })
})

describe('a warning that the database is away', () => {
  const code = { code: 'DATABASE_UNREACHABLE' }
  const away = { err: new RuntimeError(code.code, 'The database does not answer.') }

  it('comes once in ten seconds for each sentence, with how many were left out', () => {
    const { log, lines } = logged()
    const now = vi.spyOn(performance, 'now').mockReturnValue(performance.now())
    onTestFinished(() => now.mockRestore())
    for (let nth = 0; nth < 5; nth++) {
      log.warn(away, 'Jobs could not be claimed')
      log.child({ plugin: 'tides' }).warn(away, 'Tides could not be read')
      log.warn({ err: new Error('ECONNREFUSED'), ...code }, 'a request could not be served')
    }
    now.mockReturnValue(performance.now() + 10_000)
    log.warn(away, 'Jobs could not be claimed')
    const said = lines.map((line) => JSON.parse(line))
    expect(said.map(({ msg, leftOut }) => [msg, leftOut])).toEqual([
      ['Jobs could not be claimed', undefined],
      ['Tides could not be read', undefined],
      ['a request could not be served', undefined],
      ['Jobs could not be claimed', 4],
    ])
    expect(said[3]).toMatchObject({ err: { code: 'DATABASE_UNREACHABLE' } })
  })

  it('leaves out no error, and no warning of anything else', () => {
    const { log, lines } = logged()
    for (let nth = 0; nth < 3; nth++) {
      log.error(away, 'Words are lost')
      log.warn({ err: new Error('other') }, 'Jobs could not be claimed')
      log.warn('Jobs could not be claimed')
    }
    expect(lines).toHaveLength(9)
  })
})

describe('a warning that may come with every request', () => {
  it('comes once in ten seconds for each thing and person, with how many of the thing were left out', () => {
    const { log, lines } = logged()
    const now = vi.spyOn(performance, 'now').mockReturnValue(performance.now())
    onTestFinished(() => now.mockRestore())
    const warn = (of: string, whom: string) =>
      log.warn({ [mayRepeat]: { of, whom }, of, whom }, 'No turn began')
    for (let nth = 0; nth < 4; nth++) {
      warn('UNAVAILABLE', 'alice')
      warn('UNAVAILABLE', 'bob')
      warn('MODEL_TIMEOUT', 'alice')
    }
    now.mockReturnValue(performance.now() + 10_000)
    warn('UNAVAILABLE', 'alice')
    const said = lines.map((line) => JSON.parse(line))
    expect(said.map(({ of, whom, leftOut }) => [of, whom, leftOut])).toEqual([
      ['UNAVAILABLE', 'alice', undefined],
      ['UNAVAILABLE', 'bob', undefined],
      ['MODEL_TIMEOUT', 'alice', undefined],
      ['UNAVAILABLE', 'alice', 6],
    ])
  })

  it('comes once in ten seconds for whole crowds, once there are too many people to tell apart', () => {
    const { log, lines } = logged()
    const now = vi.spyOn(performance, 'now').mockReturnValue(performance.now())
    onTestFinished(() => now.mockRestore())
    for (let nth = 0; nth < 5_000; nth++)
      log.warn({ [mayRepeat]: { of: 'UNAVAILABLE', whom: `person ${nth}` } }, 'No turn began')
    expect(lines).toHaveLength(101)
    now.mockReturnValue(performance.now() + 10_000)
    log.warn({ [mayRepeat]: { of: 'UNAVAILABLE', whom: 'somebody new' } }, 'No turn began')
    expect(lines).toHaveLength(102)
    expect(JSON.parse(lines[101] ?? '')).toMatchObject({ leftOut: 4_899 })
  })

  it('is that of a refused request, and of a turn that a layer ends', async () => {
    const guard = definePlugin({
      name: 'guard',
      summary: 'Lets nobody in.',
      routes: {
        'GET /closed': {
          auth: 'public',
          run: () => {
            throw new RuntimeError('UNAVAILABLE', 'It is closed.')
          },
        },
      },
      middleware: { turn: async () => {} },
    })
    await using app = await testApp({ plugins: [guard], model: scriptedModel([]) })
    const users = [await app.user(), await app.user()]
    for (let nth = 0; nth < 5; nth++) {
      expect((await app.get('/closed')).status).toBe(503)
      for (const user of users) await user.say('Hello')
    }
    const count = (words: string) => app.log.filter((line) => line.includes(words)).length
    expect(count('a request could not be served')).toBe(1)
    expect(count('middleware.turn ended a turn')).toBe(2)
  })
})
