import { afterAll, beforeAll, expect, it } from 'vitest'
import { onPostgres } from '../../../test/support/each-database.ts'
import { type MessagingProcess, MessagingScene } from '../../../test/support/messaging-process.ts'
import { oracleId, waitFor } from '../../../test/support/open-oracle.ts'
import type { Person } from '../testing/person.ts'

const words = Array.from({ length: 24 }, (_, n) => `word${n}`).join(' ')
const whole = (name: string) => `${words} and that was question ${name}.`
const rooms = 10

/**
 * A request that was on its way to its socket when the process froze leaves when it wakes: nobody can call it back. The oracle asks
 * for news and says that it is writing all the time, and neither changes anything in a room.
 */
const mayBeUnderWay = ({ method, path }: { method: string; path: string }) =>
  (method === 'GET' && path.endsWith('/sync')) || (method === 'PUT' && path.includes('/typing/'))

await onPostgres('two processes with one account', ({ databaseUrl }) => {
  let scene: MessagingScene
  let [first, second]: MessagingProcess[] = []
  const people: { person: Person; room: string }[] = []
  beforeAll(async () => {
    // A process that is frozen in a transaction keeps its locks for so long; a minute where nothing is said.
    const url = new URL(databaseUrl ?? '')
    url.searchParams.set('idle_in_transaction_session_timeout', '3000')
    scene = await MessagingScene.open(url.href)
    first = scene.oracle('first')
    second = scene.oracle('second')
    await first.start()
    await second.start()
    const [ann, bob] = [await scene.person('ann'), await scene.person('bob')]
    for (let n = 0; n < rooms; n++) {
      const person = n % 2 === 0 ? ann : bob
      people.push({ person, room: await scene.directRoom(person) })
    }
  }, 120_000)
  afterAll(() => scene.close(), 60_000)

  /** A process that stood still for long may take itself for stuck, and end, also a while later: a supervisor begins it again. */
  const supervise = async (process: MessagingProcess | undefined) => {
    if (process?.hasEnded) await process.start()
  }

  /** Says something in every room, does something in the middle, and waits until every room has its answer. */
  const round = async (name: string, middle: () => Promise<void>) => {
    for (const [n, { person, room }] of people.entries()) {
      await person.say(room, `question ${name}${n}`)
      if (n === rooms / 2) {
        const [{ person: earliest, room: where } = { person, room }] = people
        await earliest.hears(where, 'word')
        await middle()
      }
    }
    for (const [n, { person, room }] of people.entries())
      await waitFor(async () => {
        await supervise(second)
        return scene.said(person, room).includes(whole(`${name}${n}`))
      }, 90_000)
  }

  it('answer forty messages once, as one device, while one is killed, frozen, woken and stopped', async () => {
    if (!first || !second) throw new Error('Nothing has begun.')
    const [one, other] = [first, second]
    // Whoever does not hold the account has said nothing to the server, not even a greeting.
    expect(scene.server.seen.filter(({ agent }) => agent === 'second')).toEqual([])
    await round('k', () => one.kill())
    await one.start()
    await round('f', async () => other.signal('SIGSTOP'))
    const before = scene.server.seen.length
    other.signal('SIGCONT')
    await round('w', async () => {})
    const woken = scene.server.seen.slice(before).filter(({ agent }) => agent === 'second')
    expect(woken.filter((request) => !mayBeUnderWay(request))).toEqual([])
    await supervise(other)
    await round('s', async () => {
      one.signal('SIGTERM')
      expect(await one.ended()).toBe(0)
    })
    for (const [n, { person, room }] of people.entries())
      expect(scene.said(person, room)).toEqual(
        ['k', 'f', 'w', 's'].map((name) => whole(`${name}${n}`)),
      )
    expect(scene.server.accounts.get(oracleId)?.devices.size).toBe(1)
    expect(scene.server.refused.filter((line) => line.includes('keys/upload'))).toEqual([])
    const agents = new Set(
      scene.server.seen.filter(({ userId }) => userId === oracleId).map(({ agent }) => agent),
    )
    expect([...agents].sort()).toEqual(['first', 'second'])
  }, 240_000)
})
