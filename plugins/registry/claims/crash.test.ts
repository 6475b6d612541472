import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { startServer, type ServerProcess } from '../../../test/support/process.ts'
import { apiKeys, asKey, asVerifier } from '../../../test/support/registry.ts'

await onEachDatabase('a server that is killed while oracles evaluate', (where) => {
  it(
    'has every verdict that it acknowledged, each with its credential',
    { timeout: 180_000 },
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'oracle-claims-'))
      const env = {
        API_KEY: apiKeys,
        DATA_DIR: folder,
        RATE_LIMIT_PER_MINUTE: '1000000',
        FEATURES: 'ussd=off,sampling=off,weather=off',
        ...(where.databaseUrl && { DATABASE_URL: where.databaseUrl }),
      }
      let server: ServerProcess | undefined
      let url = ''
      const start = async () => {
        server = startServer('server.ts', env)
        url = await server.url
      }
      const call = async (path: string, body?: object, key = asKey): Promise<any> => {
        const response = await fetch(url + path, {
          method: body ? 'POST' : 'GET',
          headers: { ...key, 'content-type': 'application/json' },
          body: body && JSON.stringify(body),
        })
        // While the database closes the dead server's connections, the server may answer 503, and the test asks again.
        if (response.status === 503 && !body) return sleep(250).then(() => call(path))
        const answer: any = await response.json() // any: the test reads members of its own server's answers
        if (!response.ok) throw new Error(`${path}: ${response.status} ${answer.message}`)
        return answer
      }
      const all = async (path: string) => {
        const found: any[] = [] // any: the test reads members of its own server's answers
        for (let cursor = ''; ;) {
          const { items, nextCursor } = await call(`${path}&limit=500${cursor}`)
          found.push(...items)
          if (!nextCursor) return found
          cursor = `&cursor=${nextCursor}`
        }
      }
      const acknowledged: string[] = []
      try {
        await start()
        const { did: protocol } = await call('/v1/protocols', { type: 'Protocol' })
        const { did: subject } = await call('/v1/entities', {
          type: 'Stove',
          protocol,
          properties: {},
        })
        for (let life = 0; life < 2; life++) {
          const until = acknowledged.length + 20
          const { promise: enough, resolve } = Promise.withResolvers<void>()
          let alive = true
          const oracles = Array.from({ length: 8 }, async () => {
            while (alive) {
              const { id } = await call('/v1/claims', { subject, type: 'Use', properties: {} })
              await call(`/v1/claims/${id}/evaluation`, { status: 'approved' }, asVerifier)
              acknowledged.push(id)
              if (acknowledged.length >= until) resolve()
            }
          })
          const ended = Promise.allSettled(oracles)
          await Promise.race([
            enough,
            ended.then(() => Promise.reject(new Error(server!.output()))),
          ])
          await server!.end('SIGKILL')
          alive = false
          await ended
          await start()
        }
        const claims = await all('/v1/claims?')
        const credentials = await all('/v1/credentials?')
        const approved = claims.filter(({ status }) => status === 'approved')
        const there = new Set(approved.map(({ id }) => id))
        expect(acknowledged.filter((id) => !there.has(id))).toEqual([])
        expect(approved.map(({ credential }) => `urn:uuid:${credential}`).sort()).toEqual(
          credentials.map(({ id }) => id).sort(),
        )
        const places = credentials.map(({ credentialStatus }) =>
          Number(credentialStatus.statusListIndex),
        )
        expect(places.toReversed()).toEqual(places.map((_, place) => place))
        for (const { status, credential } of claims)
          expect(credential !== undefined).toBe(status === 'approved')
      } finally {
        await server?.end('SIGKILL')
        rmSync(folder, { recursive: true, force: true })
      }
    },
  )
})
