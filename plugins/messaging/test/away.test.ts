import { expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenOracle, oracleId, waitFor } from '../../../test/support/open-oracle.ts'
import { type RoomEvent, shown } from '../testing/room.ts'

const mention = { 'm.mentions': { user_ids: [oracleId] } }
const inThread = (root: string) => ({ 'm.relates_to': { rel_type: 'm.thread', event_id: root } })

await onEachDatabase('an oracle that was away', ({ databaseUrl }) => {
  // The usual limit: what was written meanwhile is one turn, however many messages it is.
  const open = new OpenOracle({ databaseUrl, env: { MESSAGING_TURNS_PER_MINUTE: '10' } })

  /** Has the next syncs of the oracle tell of an event that they told of before. */
  const again = async (room: string, event: RoomEvent, times: number) => {
    let left = times
    open.server.fault = ({ path, userId }) => {
      if (!path.endsWith('/sync') || userId !== oracleId || left <= 0) return undefined
      left--
      const timeline = { events: [shown(event), shown(event)], limited: false }
      const join = { [room]: { timeline, state: { events: [] } } }
      return { status: 200, body: { next_batch: `s${open.server.position}`, rooms: { join } } }
    }
    open.server.devicesChanged('@nobody:home.test')
    await waitFor(async () => left === 0)
    open.server.fault = undefined
  }

  it('answers an event once that is delivered again, also by the sync after a restart', async () => {
    const ann = await open.person('ann')
    const room = await open.directRoom(ann)
    open.replies.push('Only this once.')
    const said = await ann.say(room, 'Do you hear this twice?')
    await ann.hears(room, 'Only this once.')
    const event = open.server.room(room).events.find(({ event_id: id }) => id === said)
    if (!event) throw new Error('The event is not there.')
    await again(room, event, 2)
    await open.app.crash()
    const waits = again(room, event, 1)
    await open.app.again()
    await waits
    await open.loaded()
    open.replies.push('I am here.')
    await ann.say(room, 'Are you here?')
    await ann.hears(room, 'I am here.')
    const answers = ann.seen(room).filter(({ sender }) => sender === oracleId)
    expect(answers.map(({ body }) => body)).toEqual(['Only this once.', 'I am here.'])
    expect(open.model.requests).toHaveLength(2)
  })

  it('answers each of three people once who wrote sixty messages, and not what is too old', async () => {
    const people = [await open.person('bob'), await open.person('cid'), await open.person('dan')]
    const [bob, ...others] = people
    if (!bob) throw new Error('Nobody is there.')
    const room = await bob.createRoom({ invite: [oracleId, ...others.map(({ userId }) => userId)] })
    for (const other of others) await other.join(room)
    await waitFor(async () => open.server.room(room).membership(oracleId) === 'join')
    const threads: string[] = []
    for (const [n, person] of people.entries()) {
      open.replies.push(`Hello ${n}.`)
      threads.push(await person.say(room, 'oracle: hello', mention))
      await person.hears(room, `Hello ${n}.`)
    }
    const asked = open.model.requests.length
    await open.app.crash()
    const dayMs = 86_400_000
    for (const [n, { userId: sender }] of people.entries()) {
      const content = { msgtype: 'm.text', body: `stale ${n}`, ...inThread(threads[n] ?? '') }
      const at = Date.now() - 2 * dayMs
      open.server.room(room).add({ type: 'm.room.message', sender, content, at })
    }
    for (let line = 1; line <= 20; line++)
      for (const [n, person] of people.entries())
        await person.say(room, `p${n} line ${line}.`, inThread(threads[n] ?? ''))
    // Talk of others that fills more than one page of the past.
    for (let n = 0; n < 60; n++) await bob.say(room, `Beside that, ${n}.`)
    open.answer = ({ messages }) =>
      `All that ${/p\d/.exec(messages.at(-1)?.content ?? '')?.[0]} said.`
    await open.app.again()
    for (const [n, person] of people.entries()) await person.hears(room, `All that p${n} said.`)
    open.answer = undefined
    const requests = open.model.requests.slice(asked).map(({ messages }) => messages.at(-1))
    expect(requests).toHaveLength(3)
    for (const n of people.keys()) {
      const own = requests.find((last) => last?.content.includes(`p${n} line 1.`))?.content ?? ''
      for (let line = 1; line <= 20; line++) expect(own).toContain(`p${n} line ${line}.`)
      expect(own).not.toContain('stale')
    }
    const said = bob.seen(room).filter(({ sender }) => sender === oracleId)
    expect(said).toHaveLength(6)
  }, 90_000)

  it('reads from the past of a room what a sync leaves out', async () => {
    const eva = await open.person('eva')
    const room = await open.directRoom(eva, false)
    open.replies.push('Hello Eva.')
    await eva.say(room, 'hello')
    await eva.hears(room, 'Hello Eva.')
    let hasSkipped = false
    open.server.fault = ({ path, userId }) => {
      if (hasSkipped || !path.endsWith('/sync') || userId !== oracleId) return undefined
      // It says that there was more, and not what.
      const { position } = open.server
      const isSaid = open.server.room(room).events.at(-1)?.content.body === 'What of this?'
      if (!isSaid) return undefined
      hasSkipped = true
      const timeline = { events: [], limited: true, prev_batch: `s${position}` }
      const join = { [room]: { timeline, state: { events: [] } } }
      return { status: 200, body: { next_batch: `s${position}`, rooms: { join } } }
    }
    await open.app.crash()
    await eva.say(room, 'What of this?')
    open.replies.push('That, too.')
    await open.app.again()
    await eva.hears(room, 'That, too.')
    expect(hasSkipped).toBe(true)
    open.server.fault = undefined
  })
})
