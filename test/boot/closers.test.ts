import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createApp, definePlugin } from '#core'
import { testApp } from '#core/testing'
import { describe, expect, it } from 'vitest'
import { Closers } from '../../core/runtime/closers.ts'

const quiet = { debug() {}, info() {}, warn() {}, error() {} }

describe('what was opened', () => {
  it('is closed in reverse order, once, however often that is asked for', async () => {
    const closed: string[] = []
    const closers = new Closers(quiet)
    for (const name of ['store', 'identity', 'server'])
      closers.add(async () => void closed.push(name))
    expect(closers.hasBegun).toBe(false)
    await Promise.all([closers.close(), closers.close()])
    expect(closed).toEqual(['server', 'identity', 'store'])
    expect(closers.hasBegun).toBe(true)
  })

  it('is closed although a close before it throws, and the first fault is told', async () => {
    const closed: string[] = []
    const closers = new Closers(quiet)
    closers.add(() => closed.push('lock'))
    closers.add(() => Promise.reject(new Error('second')))
    closers.add(() => {
      throw new Error('first')
    })
    await expect(closers.close()).rejects.toThrow('first')
    expect(closed).toEqual(['lock'])
  })
})

describe('a boot that fails half-way', () => {
  const broken = definePlugin({
    name: 'broken',
    summary: 'Cannot be set up.',
    setup: () => {
      throw new Error('no kettle')
    },
  })

  it('closes what it had opened: plugins, then the database and its lock', async () => {
    const DATA_DIR = await mkdtemp(join(tmpdir(), 'half-way-'))
    const told: string[] = []
    const early = definePlugin({
      name: 'early',
      summary: 'Is set up before the other one fails.',
      setup: ({ onClose, db }) =>
        onClose(async () => {
          await db.selectNoFrom((from) => from.lit(1).as('one')).execute()
          told.push('early closed while the database was open')
        }),
    })
    const env = { DATA_DIR, EVENT_LOOP_LIMIT_MS: '0' }
    const log = (line: string) => void told.push(line)
    await expect(createApp({ plugins: [early, broken], env, log })).rejects.toThrow('no kettle')
    expect(told.filter((line) => /closed|stop/.test(line))).toEqual([
      expect.stringContaining('stopping'),
      'early closed while the database was open',
      expect.stringContaining('stopped'),
    ])

    // The lock is free again.
    await using next = await testApp({ plugins: [], env: { DATA_DIR } })
    expect((await next.get('/health')).status).toBe(200)
    await next.close()
    await rm(DATA_DIR, { recursive: true })
  })
})
