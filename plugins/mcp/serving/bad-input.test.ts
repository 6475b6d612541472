import { afterAll, beforeAll, expect, it } from 'vitest'
import { scriptedModel, testApp, type TestApp } from '#core/testing'
import mcpServers from '../index.ts'
import { done, keyOf, message, send, vault } from '../../../test/support/mcp-clients.ts'

let app: TestApp
let key: string
beforeAll(async () => {
  app = await testApp({
    plugins: [vault, mcpServers],
    model: scriptedModel([]),
    env: { ORACLE_MNEMONIC: 'words of the tests of bad input by MCP', NODE_ENV: 'test' },
  })
  key = await keyOf(await app.user(), 'tools/call')
})
afterAll(() => app?.close())

const look = message('tools/call', { name: 'look', arguments: {} })
const codeOf = ({ body }: { body: any }) => body?.error?.code ?? body?.code
const old = { 'mcp-protocol-version': '2025-06-18' }

it('bodies that are no message are refused, and nothing runs', async () => {
  const wipe = message('tools/call', { name: 'wipe', arguments: { what: 'x' } })
  const deep = `${'{"a":'.repeat(70)}1${'}'.repeat(70)}`
  const wrong: [body: unknown, status: number, code: unknown][] = [
    ['{"jsonrpc"', 400, 'INVALID_JSON'],
    ['', 400, expect.anything()],
    ['null', 400, -32600],
    ['7', 400, -32600],
    ['"text"', 400, -32600],
    [[wipe, wipe], 400, -32600],
    [[], 400, -32600],
    [deep, 400, 'TOO_DEEP'],
    ['{"__proto__":{"method":"tools/call"}}', 400, 'UNSAFE_KEY'],
    ['{"jsonrpc":"2.0","id":1,"method":"tools/list\\u0000"}', 400, 'UNSAFE_TEXT'],
    [{}, 400, -32600],
    [{ ...wipe, jsonrpc: '1.0' }, 400, -32600],
    [{ ...wipe, id: null }, 400, expect.anything()],
    [{ ...wipe, id: { a: 1 } }, 400, expect.anything()],
    [{ ...wipe, params: ['wipe'] }, 400, expect.anything()],
    [{ ...message('no/such'), id: 7 }, 404, -32601],
    [`{"a":"${'x'.repeat(1024 * 1024)}"}`, 413, expect.anything()],
  ]
  done.length = 0
  for (const [body, status, code] of wrong) {
    const answer = await send(app, key, body)
    const about = `${JSON.stringify(body).slice(0, 80)} -> ${answer.text.slice(0, 200)}`
    expect([answer.status, codeOf(answer)], about).toEqual([status, code])
  }
  expect(done).toEqual([])
  expect((await send(app, key, look)).body.result.structuredContent).toBeDefined()
})

it('headers that disagree with the body are refused', async () => {
  for (const headers of [
    { 'mcp-method': 'tools/list' },
    { 'mcp-name': 'wipe' },
    { 'mcp-protocol-version': '2025-06-18' },
    { 'mcp-protocol-version': '2099-01-01' },
    { 'mcp-method': '' },
  ] as Record<string, string>[]) {
    const answer = await send(app, key, look, headers)
    expect([headers, answer.status]).toEqual([headers, 400])
  }
  const future = structuredClone(look)
  Reflect.set(future.params._meta, 'io.modelcontextprotocol/protocolVersion', '2099-01-01')
  const answer = await send(app, key, future, { 'mcp-protocol-version': '2099-01-01' })
  expect(answer).toMatchObject({ status: 400, body: { error: { code: -32022 } } })
  expect(JSON.stringify(answer.body)).toContain('2026-07-28')
  const typed = await send(app, key, look, { 'content-type': 'text/plain' })
  expect(typed.status).toBe(415)
})

it('a client of before is offered a revision that both know, and has no session', async () => {
  const initialize = (protocolVersion: string) => ({
    jsonrpc: '2.0',
    id: 1,
    method: 'initialize',
    params: { protocolVersion, capabilities: {}, clientInfo: { name: 'old', version: '1' } },
  })
  for (const [asked, given] of [
    ['2024-11-05', '2024-11-05'],
    ['2025-03-26', '2025-03-26'],
    ['2025-06-18', '2025-06-18'],
    ['2025-11-25', '2025-11-25'],
    ['1999-01-01', '2025-11-25'],
  ] as const) {
    const { status, body, headers } = await send(app, key, initialize(asked), {
      'mcp-protocol-version': '2025-06-18',
    })
    expect([asked, status, body?.result?.protocolVersion]).toEqual([asked, 200, given])
    expect(headers.get('mcp-session-id')).toBeNull()
    expect(body.result.capabilities).toEqual({ tools: {} })
  }
  const call = { ...look, params: { name: 'look', arguments: {} } }
  expect((await send(app, key, call, old)).body.result.structuredContent).toBeDefined()
  const note = { jsonrpc: '2.0', method: 'notifications/initialized' }
  expect((await send(app, key, note, old)).status).toBe(202)
})

it('arguments and names of any kind end in an answer', async () => {
  const calls: [params: object, is: object][] = [
    [{ name: 'look', arguments: { shelf: 'x'.repeat(21) } }, { result: { isError: true } }],
    [{ name: 'look', arguments: 'text' }, { error: { code: -32602 } }],
    [{ name: 'look', arguments: [] }, { error: { code: -32602 } }],
    [{ name: 'x'.repeat(10_000), arguments: {} }, { error: expect.anything() }],
    [{ name: 'load_capability', arguments: { names: [] } }, { error: { code: -32602 } }],
    [{ name: 'ask', arguments: {} }, { result: { isError: true } }],
    [{ name: 'ask', arguments: { message: '' } }, { result: { isError: true } }],
    [{ name: 'ask', arguments: { message: 'x', session: '..' } }, { result: { isError: true } }],
    [{ name: 'ask', arguments: { message: 'x', more: 1 } }, { result: { isError: true } }],
  ]
  for (const [params, is] of calls) {
    const { name } = params as { name: string }
    const answer = await send(app, key, message('tools/call', params), {
      'mcp-name': name.slice(0, 200),
      ...(name.length > 200 && { 'mcp-name': 'x' }),
    })
    expect(answer.body, JSON.stringify(params).slice(0, 90)).toMatchObject(is)
    expect(answer.text.length).toBeLessThan(2_000)
  }
})
