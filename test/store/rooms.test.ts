import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { testApp, type TestApp } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'

const user = (name: string) => ({ user: { did: `did:key:z${name}` } })

/** A plugin that counts letters for users, in setup and in a route. */
const letters = definePlugin({
  name: 'letters',
  summary: 'Counts letters.',
  state: {
    box: z
      .object({ letters: z.number().default(0), from: z.string().optional() })
      .prefault({})
      .meta({ scope: 'room' }),
    mood: z.string().default('calm'),
  },
  setup: ({ rooms }) => rooms,
  routes: {
    'GET /box': { run: (_, { state }) => state.box },
    'GET /box/:name': {
      auth: 'public',
      run: ({ name }, { rooms }) => rooms.read(user(name)),
    },
  },
})
const reader = definePlugin({
  name: 'reader',
  summary: 'Hands out the rooms of the letters.',
  requires: [letters],
  setup: ({ plugins }) => void (roomsOf = plugins.letters),
})
let roomsOf: NonNullable<(typeof letters)['~types']>['self']

await onEachDatabase('rooms outside a turn', ({ databaseUrl }) => {
  const open = (): Promise<TestApp> =>
    testApp({
      plugins: [letters, reader],
      env: databaseUrl ? { DATABASE_URL: databaseUrl } : {},
    })

  it('have the defaults first, and what was written in every later read', async () => {
    await using app = await open()
    expect(await roomsOf.read(user('Amina'))).toEqual({ box: { letters: 0 }, mood: 'calm' })
    await roomsOf.update(user('Amina'), (state) => void (state.box.letters = 2))
    expect((await app.get('/box/Amina')).body).toMatchObject({ box: { letters: 2 } })
    expect((await app.get('/box/Brian')).body).toMatchObject({ box: { letters: 0 } })
  })

  it('are those that a route of the user reads', async () => {
    await using app = await open()
    const amina = await app.user()
    await roomsOf.update({ user: amina }, (state) => void (state.box.from = 'Chanda'))
    expect((await amina.get('/box')).body).toEqual({ letters: 0, from: 'Chanda' })
  })

  it('lose no update of many at once', async () => {
    await using _ = await open()
    const once = () => roomsOf.update(user('Chanda'), (state) => void state.box.letters++)
    await Promise.all(Array.from({ length: 20 }, once))
    expect(await roomsOf.read(user('Chanda'))).toMatchObject({ box: { letters: 20 } })
  })

  it('belong to a user with a DID: users who are named wrongly share nothing', async () => {
    await using app = await open()
    const { did } = await app.user()
    for (const wrong of [{ user: did }, { user: null }, { user: {} }, { user: { did: 'Amina' } }]) {
      const refused = { code: 'INPUT_INVALID', message: expect.stringContaining('without a DID') }
      await expect(roomsOf.read(wrong as never)).rejects.toMatchObject(refused)
      const writing = roomsOf.update(wrong as never, (state) => void (state.box.letters = 1))
      await expect(writing).rejects.toMatchObject(refused)
    }
  })

  it('refuse what they do not keep, which would be lost without a word', async () => {
    await using _ = await open()
    const eve = user('Eve')
    const misspelt = roomsOf.update(eve, (state) => void Object.assign(state, { bax: 1 }))
    await expect(misspelt).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      message: 'letters keeps no "bax" in rooms.',
      hint: 'Did you mean "box"?',
    })
    const ofSession = roomsOf.update(eve, (state) => void (state.mood = 'merry'))
    await expect(ofSession).rejects.toMatchObject({ hint: expect.stringContaining('session') })
    expect(await roomsOf.read(eve)).toEqual({ box: { letters: 0 }, mood: 'calm' })
  })

  it('keep nothing of an update that throws, is async or does not fit the schema', async () => {
    await using _ = await open()
    const dora = user('Dora')
    const failing = roomsOf.update(dora, (state) => {
      state.box.letters = 1
      throw new Error('no stamp')
    })
    await expect(failing).rejects.toThrow('no stamp')
    const async = roomsOf.update(dora, async (state) => void (state.box.letters = 1))
    await expect(async).rejects.toThrow('rooms.update is async')
    const unfit = roomsOf.update(dora, (state) => void (state.box.letters = 'many' as never))
    await expect(unfit).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      message: expect.stringContaining('"box" does not fit its schema: letters: '),
    })
    const both = { ...dora, room: 'hall' } as never
    await expect(roomsOf.read(both)).rejects.toThrow('named both a user and a room')
    await expect(roomsOf.update(dora, 'letters' as never)).rejects.toThrow('no function')
    expect(await roomsOf.read(dora)).toMatchObject({ box: { letters: 0 } })
  })
})
