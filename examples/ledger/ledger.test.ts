import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { startProcess } from '../../test/support/start-process.ts'

it('is queried by a server that was started as it says', { timeout: 60_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ledger-'))
  const ledger = startProcess('examples/ledger/server.ts', { LEDGER_PORT: '0' })
  const [printed] = await ledger.said(/GATEWAY_UPSTREAM=[^]*npm start/)
  const variables = Object.fromEntries(
    [...printed.matchAll(/(GATEWAY_\w+)=(\S+)/g)].map(([, name = '', value = '']) => [name, value]),
  )
  expect(Object.keys(variables)).toHaveLength(3)
  const server = startProcess('server.ts', { ...variables, PORT: '0', DATA_DIR: folder })
  try {
    const [url] = await server.said(/http:\/\/127\.0\.0\.1:\d+/)
    await server.said(/query-gateway (available|pending -> available)/)
    const get = async (path: string) => {
      const response = await fetch(url + path)
      return { status: response.status, body: (await response.json()) as any } // any: the test reads members of the answer
    }
    expect((await get('/ledger/entity/did:x:entity:1')).body.entity.version).toBe(
      '18446744073709551615',
    )
    expect((await get('/ledger/entity/stove%2F7')).body.entity.id).toBe('stove/7')
    expect((await get('/ledger/entity/status/STATUS_ACTIVE')).body.entities).toHaveLength(3)
    const { body } = await get('/ledger/claims/claims?pagination.limit=2')
    const key = encodeURIComponent(body.pagination.next_key)
    expect((await get(`/ledger/claims/claims?pagination.key=${key}`)).body.claims).toHaveLength(3)
    expect((await get('/ledger/token/params')).body.max_supply).toBe('9007199254740993')
    expect((await get('/old-ledger/token/params')).status).toBe(200)
    expect(await get('/another/token/params')).toMatchObject({ status: 404, body: { code: 5 } })
    expect((await get('/health')).body.plugins['query-gateway']).toBe('available')
  } finally {
    await server.stop()
    await ledger.stop()
    rmSync(folder, { recursive: true, force: true })
  }
})
