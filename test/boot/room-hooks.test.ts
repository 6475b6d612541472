import { describe, expect, it, onTestFinished } from 'vitest'
import { definePlugin, RuntimeError, type ToldRoomChange } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import type { Rooms } from '../../core/plugin.ts'

const change = {
  roomId: '!pair:example.org',
  account: '@memory:example.org',
  change: 'invited',
  by: '@person:example.org',
} as const

/** A plugin that carries rooms, and two that hear who is in them. */
function carriers() {
  let rooms: Rooms<Record<never, never>> | undefined
  const heard: ToldRoomChange[] = []
  const first = { fails: false }
  const carrier = definePlugin({
    name: 'carrier',
    summary: 'Carries rooms.',
    visibility: 'silent',
    setup: (boot) => {
      rooms = boot.rooms
      return { server: 'example.org' }
    },
    roomIdOf: async ({ did }, { self }) =>
      did.endsWith('z') ? undefined : `!${did.slice(-6)}:${self.server}`,
  })
  const early = definePlugin({
    name: 'early',
    summary: 'Hears first.',
    visibility: 'silent',
    members: () => {
      if (first.fails) throw new RuntimeError('UNAVAILABLE', 'Not now.')
    },
    roomIdOf() {
      throw new Error('I know no room.')
    },
  })
  const late = definePlugin({
    name: 'late',
    summary: 'Hears second.',
    visibility: 'silent',
    setup: () => ({ word: 'heard' }),
    members(told, { self }) {
      expect(self.word).toBe('heard')
      heard.push(told)
    },
  })
  return {
    plugins: [early, carrier, late],
    heard,
    first,
    tell: (what: unknown) => rooms!.changed(what as Parameters<Rooms['changed']>[0]),
  }
}

describe('the rooms that a plugin carries', () => {
  const open = async () => {
    const own = carriers()
    const app = await testApp({ plugins: own.plugins, model: scriptedModel(['Hello.']) })
    onTestFinished(() => app.close())
    return { app, ...own }
  }

  it('have ids that clients are told of every session without a room of its own', async () => {
    const { app } = await open()
    const user = await app.user()
    const roomId = user.did.endsWith('z') ? undefined : `!${user.did.slice(-6)}:example.org`
    expect((await user.post('/sessions')).body.roomId).toBe(roomId)
    const { sessions } = (await user.get('/sessions')).body
    expect(sessions).toMatchObject([roomId === undefined ? {} : { roomId }])
  })

  it('tell every plugin who comes and goes, also when one of them fails', async () => {
    const { app, tell, heard, first } = await open()
    const { did } = await app.user()
    await tell({ ...change, did })
    expect(heard).toEqual([{ ...change, did, plugin: 'carrier' }])
    first.fails = true
    await expect(tell({ ...change, did, room: 'hall', change: 'left' })).rejects.toThrow('Not now.')
    expect(heard[1]).toMatchObject({ room: 'hall', change: 'left' })
  })

  it.each([
    ['did', { did: 'nobody' }],
    ['roomId', { roomId: '' }],
    ['account', { account: 'a\0b' }],
    ['by', { by: 5 }],
    ['change', { change: 'banned' }],
  ])('refuse a change whose %s is none', async (name, wrong) => {
    const { app, tell, heard } = await open()
    const { did } = await app.user()
    await expect(tell({ ...change, did, ...wrong })).rejects.toThrow(`"${name}"`)
    expect(heard).toEqual([])
  })
})
