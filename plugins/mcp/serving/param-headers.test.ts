import { afterAll, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { definePlugin } from '#core'
import { scriptedModel, testApp, type TestApp } from '#core/testing'
import mcpServers from '../index.ts'
import { keyOf, message, send } from '../../../test/support/mcp-clients.ts'

const ran: unknown[] = []
const header = (name: string) => ({ 'x-mcp-header': name })
const depots = definePlugin({
  name: 'depots',
  summary: 'Has depots.',
  tools: {
    stock: {
      description: 'What a depot has.',
      effect: 'read',
      foreign: false,
      input: z.object({
        region: z.string().meta(header('Region')),
        at: z.object({ shelf: z.int().meta(header('Shelf')) }).optional(),
        isCold: z.boolean().optional().meta(header('Cold')),
      }),
      run: (args) => void ran.push(args),
    },
  },
})

let app: TestApp
let key: string
beforeAll(async () => {
  const env = { ORACLE_MNEMONIC: 'words of the tests of parameters in headers' }
  app = await testApp({ plugins: [depots, mcpServers], model: scriptedModel([]), env })
  key = await keyOf(await app.user(), 'tools/call')
})
afterAll(() => app?.close())

const base64 = (text: string) => `=?base64?${Buffer.from(text).toString('base64')}?=`

it.each<[name: string, args: object, headers: Record<string, string>]>([
  ['as it stands', { region: 'north' }, { 'mcp-param-region': 'north' }],
  ['in Base64', { region: 'Chiñgola' }, { 'mcp-param-region': base64('Chiñgola') }],
  ['half marked as Base64', { region: '=?base64?x' }, { 'mcp-param-region': '=?base64?x' }],
  [
    'of a number within an object',
    { region: 'north', at: { shelf: 7 } },
    { 'mcp-param-region': 'north', 'mcp-param-shelf': '7.0' },
  ],
  [
    'of a truth',
    { region: 'north', isCold: true },
    { 'mcp-param-region': 'north', 'mcp-param-cold': 'true' },
  ],
  [
    'of what is not in the body',
    { region: 'north' },
    { 'mcp-param-region': 'north', 'mcp-param-cold': 'true' },
  ],
])('a header that says what the body says is taken: %s', async (_, args, headers) => {
  ran.length = 0
  const call = message('tools/call', { name: 'stock', arguments: args })
  const { status, body } = await send(app, key, call, headers)
  expect([status, body.error, body.result?.isError ?? false]).toEqual([200, undefined, false])
  expect(ran).toEqual([args])
})

it.each<[name: string, args: object, headers: Record<string, string>, about: string]>([
  ['missing', { region: 'north' }, {}, 'is missing'],
  ['another value', { region: 'north' }, { 'mcp-param-region': 'south' }, 'is not what "region"'],
  ['another case', { region: 'north' }, { 'mcp-param-region': 'North' }, 'is not what "region"'],
  ['no padding', { region: 'Hello' }, { 'mcp-param-region': '=?base64?SGVsbG8?=' }, 'no Base64'],
  ['no Base64', { region: 'Hello' }, { 'mcp-param-region': '=?base64?SG!sbG8=?=' }, 'no Base64'],
  ['no UTF-8', { region: '\u{fffd}' }, { 'mcp-param-region': '=?base64?/w==?=' }, 'no Base64'],
  [
    'another number',
    { region: 'north', at: { shelf: 7 } },
    { 'mcp-param-region': 'north', 'mcp-param-shelf': '8' },
    'is not what "at.shelf"',
  ],
])('a header that says something else is refused: %s', async (_, args, headers, about) => {
  ran.length = 0
  const call = message('tools/call', { name: 'stock', arguments: args })
  const { status, body } = await send(app, key, call, headers)
  expect(status).toBe(400)
  expect(body).toMatchObject({ id: call.id, error: { code: -32020 } })
  expect(body.error.message).toContain(about)
  expect(ran).toEqual([])
})

it('the package’s own client sends them, and a client of before needs none', async () => {
  ran.length = 0
  const args = { region: 'Chiñgola', at: { shelf: 3 }, isCold: false }
  const call = { name: 'stock', arguments: args }
  for (const versionNegotiation of [{ mode: 'auto' }, undefined] as const) {
    const client = new Client({ name: 'a client', version: '1' }, { versionNegotiation } as object)
    const requestInit = { headers: { authorization: `Bearer ${key}` } }
    const url = new URL(`${app.url}/mcp`)
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit }))
    expect((await client.callTool(call)).isError ?? false).toBe(false)
    await client.close()
  }
  expect(ran).toEqual([args, args])
})
