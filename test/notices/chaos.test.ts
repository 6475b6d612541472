import { afterEach, expect, it, onTestFinished } from 'vitest'
import { killChildren } from '../support/child.ts'
import { type ClerkServer, openOffice, patient } from '../support/clerk.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { openStream } from '../support/event-stream.ts'

afterEach(killChildren)

/** Reads the notices of a user as a browser does: cut off, it goes on at whichever server there is, after the last it heard. */
function browser(at: () => ClerkServer) {
  const heard: number[] = []
  let last: number | undefined
  let isOver = false
  const opened = Promise.withResolvers<void>()
  const reading = (async () => {
    while (!isOver) {
      try {
        const server = at()
        const headers = await server.headers()
        if (last !== undefined) headers['Last-Event-ID'] = String(last)
        const stream = await openStream(`${server.url}/events`, headers)
        for (let event = await stream.next(); event; event = await stream.next()) {
          if (event.id !== undefined) last = event.id
          if (event.event === 'connected') opened.resolve()
          if (event.event === 'notice') heard.push(event.data.id)
        }
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 20)) // its server was killed
      }
    }
  })()
  const close = () => void (isOver = true)
  onTestFinished(close)
  return { heard, opened: opened.promise, close, reading }
}

await onEachDatabase('notices of servers that are killed again and again', (where) => {
  it(
    'reach every browser once and in order, and are carried with one key each',
    { timeout: 180_000 },
    async () => {
      const office = await openOffice(where)
      const isShared = where.databaseUrl !== undefined
      let servers = [await office.serve()]
      if (isShared) servers.push(await office.serve())
      const newest = () => servers.at(-1) as ClerkServer
      const session = (await newest().post('/sessions', {})).body.sessionId
      const browsers = [browser(newest), browser(() => servers[0] as ClerkServer)]
      await Promise.all(browsers.map(({ opened }) => opened))
      const many = 24
      for (let n = 0; n < many; n++) {
        const text = `Number ${n}`
        const words = { did: office.did, session, text, key: `key-${n}` }
        const said = await newest().post('/say', words)
        expect(said).toMatchObject({ status: 200 })
        // A server dies in the middle of what it is about to carry.
        if (n % 6 === 3) {
          const [dies, ...others] = servers
          await dies?.kill()
          servers = [...others, await office.serve()]
          // Said once more, as by somebody who did not hear the answer: nothing comes of it.
          expect((await newest().post('/say', words)).body).toEqual(said.body)
        }
      }
      const { body } = await newest().get('/notices?limit=100')
      const all = body.notices.map(({ id }: { id: number }) => id).reverse()
      expect(all).toHaveLength(many)
      for (const { heard } of browsers) await expect.poll(() => heard.length, patient).toBe(many)
      for (const { heard } of browsers) expect(heard).toEqual(all)
      const carried = () => new Set(office.of('notice').map(({ id }) => id)).size
      await expect.poll(carried, patient).toBe(many)
      const keys = new Set(office.of('notice').map(({ id, key }) => `${String(id)} ${String(key)}`))
      expect(keys.size).toBe(many)
      for (const { close } of browsers) close()
      await office.close()
      await Promise.all(browsers.map(({ reading }) => reading))
    },
  )
})
