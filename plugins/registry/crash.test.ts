import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { startServer, type ServerProcess } from '../../test/support/process.ts'

const key = 'a-key-for-this-test'
const headers = { authorization: `Bearer ${key}` }

await onEachDatabase('a server that is killed', (where) => {
  it(
    'has kept everything that it acknowledged, and nothing half',
    { timeout: 180_000 },
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'oracle-crash-'))
      const env = {
        API_KEY: key,
        DATA_DIR: folder,
        RATE_LIMIT_PER_MINUTE: '1000000',
        FEATURES: 'ussd=off,sampling=off,weather=off',
        ...(where.databaseUrl && { DATABASE_URL: where.databaseUrl }),
      }
      let server: ServerProcess | undefined
      const acknowledged: string[] = []
      const batches: number[] = []
      try {
        for (let life = 0; life < 2; life++) {
          server = startServer('server.ts', env)
          const url = await server.url
          const post = async (path: string, body: string, type = 'application/json') => {
            const answer = await fetch(url + path, {
              method: 'POST',
              headers: { ...headers, 'content-type': type },
              body,
            })
            return { status: answer.status, text: await answer.text() }
          }
          if (life === 0)
            await post(
              '/v1/protocols',
              JSON.stringify({ type: 'Protocol', did: 'did:p:1', properties: { n: 'number' } }),
            )
          const until = acknowledged.length + 25
          const { promise: enough, resolve } = Promise.withResolvers<void>()
          let alive = true
          const writers = [
            ...Array.from({ length: 8 }, async (_, writer) => {
              for (let n = 0; alive; n++) {
                const did = `did:crash:${life}-${writer}-${n}`
                const relationships = acknowledged
                  .slice(-2)
                  .map((target) => ({ role: 'x', target }))
                const body = {
                  did,
                  type: 'OrganisationEntity',
                  protocol: 'did:p:1',
                  properties: { n },
                  groups: ['a', 'b', 'c'],
                  relationships,
                }
                const { status } = await post('/v1/entities', JSON.stringify(body))
                if (status !== 201) throw new Error(`${status}`)
                acknowledged.push(did)
                if (acknowledged.length >= until && batches.length > life) resolve()
              }
            }),
            (async () => {
              for (let n = life * 1000; alive; n++) {
                const line = JSON.stringify({
                  type: 'Bulk',
                  protocol: 'did:p:1',
                  properties: { n },
                })
                const { status } = await post(
                  '/v1/entities/batch?atomic=true',
                  `${line}\n`.repeat(100),
                  'application/x-ndjson',
                )
                if (status !== 200) throw new Error(`${status}`)
                batches.push(n)
              }
            })(),
          ]
          const ended = Promise.allSettled(writers)
          await Promise.race([
            enough,
            ended.then(() => Promise.reject(new Error(server!.output()))),
          ])
          await server.end('SIGKILL')
          alive = false
          await ended
        }

        server = startServer('server.ts', env)
        const url = await server.url
        const get = async (path: string) => (await fetch(url + path, { headers })).json() as any // any: the test reads members
        const all = async (query: string) => {
          const found: any[] = [] // any: the test reads members of its own server's answers
          for (let cursor = ''; ;) {
            const page = await get(`/v1/entities?${query}&limit=500${cursor}`)
            found.push(...page.items)
            if (!page.nextCursor) return found
            cursor = `&cursor=${page.nextCursor}`
          }
        }
        const organisations = await all('type=OrganisationEntity')
        const groups = new Set((await all('type=MembershipGroup')).map(({ did }) => did))
        const there = new Map(organisations.map((entity) => [entity.did, entity]))
        expect(acknowledged.filter((did) => !there.has(did))).toEqual([])
        for (const { did, relationships } of organisations) {
          const own = ['a', 'b', 'c'].map((name) => `${did}:group:${name}`)
          expect(own.filter((group) => !groups.has(group))).toEqual([])
          const contained = relationships.filter(
            ({ role }: { role: string }) => role === 'contains',
          )
          expect(contained.map(({ target }: { target: string }) => target)).toEqual(own)
          expect(relationships.length).toBeLessThanOrEqual(5)
        }
        expect(groups.size).toBe(3 * organisations.length)
        const perBatch = Map.groupBy(await all('type=Bulk'), ({ properties }) => properties.n)
        for (const [, entities] of perBatch) expect(entities).toHaveLength(100)
        for (const n of batches) expect(perBatch.has(n)).toBe(true)
        // Each of the writers had at most one request without an answer, so at most so many entities are not acknowledged.
        expect(there.size - acknowledged.length).toBeLessThanOrEqual(2 * 8)
        const history = await get(`/v1/entities/${encodeURIComponent(acknowledged[0]!)}/history`)
        expect(history.items).toHaveLength(1)
      } finally {
        await server?.end('SIGKILL')
        rmSync(folder, { recursive: true, force: true })
      }
    },
  )
})
