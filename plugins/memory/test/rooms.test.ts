import { expect, it } from 'vitest'
import { definePlugin, type ToldRoomChange, type Turns } from '#core'
import { call } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenMemory } from '../../../test/support/open-memory.ts'

interface Parts {
  readonly turns: Turns
  changed(change: Omit<ToldRoomChange, 'plugin'>): Promise<void>
}
let made: Parts | undefined
const hall = definePlugin({
  name: 'hall',
  summary: 'Brings messages of a room.',
  setup: ({ turns, rooms }) => void (made = { turns, changed: (change) => rooms.changed(change) }),
})
const parts = () => {
  if (made) return made
  throw new Error('The setup did not run.')
}

await onEachDatabase('rooms', ({ databaseUrl }) => {
  const open = new OpenMemory({ MEMORY_ENGINE_USER_ID: '@memory:example.org' }, databaseUrl, [hall])

  it('reads and notices nothing of a person where others read along; what is asked for there belongs to the room', async () => {
    const [user, other] = [await open.user(), await open.user()]
    await user.post('/memory', { text: 'lives in Lusaka', slot: 'home' })
    const room = '!hall:example.org'
    const say = async (who: typeof user, message: string) => {
      const turn = parts().turns.start({ user: { did: who.did }, room, shared: true, message })
      await turn.ended
      return open.model.requests.at(-1)
    }
    open.replies.push(call('remember', { text: 'the meeting is on Friday' }), 'Kept for all.')
    await say(user, 'Remember that the meeting is on Friday')
    const asked = await say(other, 'When is the meeting, and where does our friend live?')
    const prompt = asked?.messages[0]?.content ?? ''
    expect(prompt).toContain('"the meeting is on Friday"')
    expect(prompt).not.toContain('Lusaka')
    expect(asked?.tools.map(({ name }) => name)).not.toContain('memory_settings')
    // Nobody's own memory has it, and nobody's words can be found.
    for (const who of [user, other]) {
      expect(await open.texts(who)).not.toContain('the meeting is on Friday')
      const found = await open.self.passages.find(open.self.db, who.did, {
        question: 'meeting',
        from: 0,
        to: 9e15,
      })
      expect(found).toEqual([])
    }
    // Alone again, the person's own is there, and the room's is not.
    await user.say('Where do I live, and when is the meeting?')
    const alone = open.model.requests.at(-1)?.messages[0]?.content ?? ''
    expect(alone).toContain('lives in Lusaka')
    expect(alone).not.toContain('meeting is on Friday')
  })

  it('forgets what a person had remembered for a room with the session in which alone it was said', async () => {
    const [user, other] = [await open.user(), await open.user()]
    const room = '!court:example.org'
    const say = async (who: typeof user, message: string) => {
      const turn = parts().turns.start({ user: { did: who.did }, room, shared: true, message })
      await turn.ended
      return (await turn.begun).sessionId
    }
    const remember = (text: string) => {
      open.replies.push(call('remember', { text }), 'Kept for all.')
      return `Remember that ${text}`
    }
    const here = async () => {
      const rows = await open.self.db
        .selectFrom('memory_memories')
        .select('text')
        .where('did', 'like', 'room:%court%')
        .execute()
      return rows.map(({ text }) => text)
    }
    const session = await say(user, remember('the meeting is on Friday'))
    await say(user, remember('the gate is painted green'))
    await say(other, remember('the gate is painted green'))
    expect((await here()).toSorted()).toEqual([
      'the gate is painted green',
      'the meeting is on Friday',
    ])
    expect((await user.delete(`/sessions/${session}`)).status).toBe(200)
    expect(await here()).toEqual(['the gate is painted green'])
    await say(other, 'When is the meeting?')
    expect(open.model.requests.at(-1)?.messages[0]?.content).not.toContain('Friday')
  })

  it('is turned on by the invitation of its account, and paused when the account leaves', async () => {
    const user = await open.app.user()
    const mode = async () => (await user.get('/memory/settings')).body.mode
    const tell = (
      account: string,
      change: 'invited' | 'joined' | 'left',
      by = '@person:example.org',
      room?: string,
    ) =>
      parts().changed({
        did: user.did,
        roomId: '!pair:example.org',
        account,
        change,
        by,
        ...(room !== undefined && { room }),
      })
    await tell('@somebody:example.org', 'invited')
    await tell('@memory:example.org', 'invited', '@memory:example.org')
    await tell('@memory:example.org', 'invited', '@person:example.org', '!hall:example.org')
    expect(await mode()).toBe('ask')
    await tell('@memory:example.org', 'invited')
    expect(await mode()).toBe('on')
    await tell('@memory:example.org', 'joined', '@memory:example.org')
    expect(await mode()).toBe('on')
    await tell('@memory:example.org', 'left', '@memory:example.org')
    expect(await mode()).toBe('paused')
  })
})
