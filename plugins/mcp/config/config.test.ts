import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { isWanted, namesOf } from '../tools/names.ts'
import { readTools } from '../tools/listed.ts'
import { treatmentOf } from '../tools/effect.ts'
import { readConfiguration } from './config.ts'

const read = (servers: object, env: Record<string, string> = {}) =>
  readConfiguration({ ...env, MCP_SERVERS: JSON.stringify({ mcpServers: servers }) })

it('reads claude_desktop_config.json and the mcp.json of VS Code as they are', () => {
  const folder = mkdtempSync(join(tmpdir(), 'mcp-config-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const desktop = join(folder, 'claude_desktop_config.json')
  writeFileSync(
    desktop,
    `{ "globalShortcut": "", "mcpServers": {
      "filesystem": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home"] } } }`,
  )
  expect(readConfiguration({ MCP_SERVERS: desktop })).toMatchObject({
    faults: [],
    servers: [
      {
        name: 'filesystem',
        way: {
          kind: 'stdio',
          command: 'npx',
          args: ['-y', '@modelcontextprotocol/server-filesystem', '/home'],
        },
      },
    ],
  })
  // Found in DATA_DIR without a variable.
  writeFileSync(
    join(folder, 'mcp.json'),
    `{
      // what the team uses, see https://example.org
      "inputs": [],
      "servers": {
        "GitHub": { "type": "http", "url": "https://api.example.org/mcp", /* ours */
          "headers": { "Authorization": "Bearer \${env:GITHUB_TOKEN}", "X-Note": "a \\" // no comment, }" }, },
      },
    }`,
  )
  const { servers, faults } = readConfiguration({ DATA_DIR: folder, GITHUB_TOKEN: 'gh-secret' })
  expect(faults).toEqual([])
  expect(servers).toMatchObject([
    {
      name: 'github',
      way: {
        kind: 'http',
        url: 'https://api.example.org/mcp',
        headers: { Authorization: 'Bearer gh-secret', 'X-Note': 'a " // no comment, }' },
      },
    },
  ])
})

it('leaves out each server with a fault, says the remedy, and keeps the others', () => {
  const { servers, faults } = read(
    {
      good: { command: 'true' },
      both: { command: 'true', url: 'https://example.org' },
      neither: {},
      missing: { command: 'true', env: { TOKEN: '${MISSING}' } },
      asks: { command: 'true', args: ['${input:token}'] },
      plain: { url: 'http://example.org/mcp' },
      local: { url: 'http://127.0.0.1:4000/mcp' },
      file: { url: 'file:///etc/passwd' },
      secret: { url: 'https://user:pass@example.org' },
      typo: { command: 'true', oracle: { acess: 'everyone' } },
      off: { command: 'true', disabled: true },
      mcp: { command: 'true' },
      'Good!': { command: 'true' },
      good_: { command: 'true' },
      日本: { command: 'true' },
      '13': { command: 'true' },
      shell: { command: 'echo $(id) && rm -rf /' },
    },
    { PATH: '/bin' },
  )
  expect(servers.map(({ name }) => name)).toEqual(['good', 'local', 'mcp-mcp', 'mcp-good', 'shell'])
  const said = faults.join('\n')
  for (const words of [
    'both: it has both "command" and "url". Keep one of them.',
    'neither: it has neither',
    'missing: it needs the variable MISSING, which is unset.',
    'asks: it has ${input:token}, which is not known here.',
    'plain: its "url" is plain http: to another host.',
    'file: its "url" begins with file:',
    'secret: its "url" has a password in it.',
    'typo: "oracle',
    'good_: another server or plugin has the name "good"',
    '日本: no name of a plugin can be made',
    '13: no name of a plugin can be made',
  ])
    expect(said).toContain(words)
  expect(faults).toHaveLength(11)
})

it('says what is wrong with the whole, and never throws', () => {
  for (const [given, words] of [
    ['/does/not/exist.json', 'cannot be read'],
    ['{ no json', 'this is no JSON'],
    ['{ "other": {} }', 'there is no "mcpServers"'],
    ['{ "mcpServers": [] }', 'there is no "mcpServers"'],
  ] as const) {
    const { servers, faults } = readConfiguration({ MCP_SERVERS: given })
    expect(servers).toEqual([])
    expect(faults.join()).toContain(words)
  }
  expect(readConfiguration({ DATA_DIR: '/does/not/exist' }).isThere).toBe(false)
})

it('a new password is the same server, another address or command is not', () => {
  const of = (entry: object, env = {}) => read({ a: entry }, env).servers[0]?.fingerprint
  const entry = { command: 'npx', args: ['a'], env: { TOKEN: '${T}' } }
  expect(of(entry, { T: 'one' })).toBe(of(entry, { T: 'two' }))
  expect(of(entry, { T: 'one' })).not.toBe(of({ ...entry, args: ['b'] }, { T: 'one' }))
})

it('names of tools are ones that every model takes, and no two are the same', () => {
  const tools = readTools([
    { name: 'a b', inputSchema: { type: 'object' } },
    { name: 'a_b', inputSchema: { type: 'object' } },
    { name: `x${'y'.repeat(100)}`, inputSchema: {} },
    { name: 7 },
    'no tool',
  ])
  const names = [...namesOf('my-server', tools).keys()]
  expect(names).toHaveLength(3)
  expect(names[0]).toBe('my-server_a_b')
  for (const name of names) expect(name).toMatch(/^[A-Za-z0-9_-]{1,64}$/)
  expect(isWanted('list_notes', ['list_*'])).toBe(true)
  expect(isWanted('xlist_notes', ['list_*', '*_x'])).toBe(false)
  expect(isWanted('a.b.c', ['a*b*c'])).toBe(true)
  expect(isWanted('aba', ['ab*ba'])).toBe(false)
})

it('treats calls by the hints, unless the operator trusts none or has not seen the tool', () => {
  const read = { readOnly: true }
  expect(treatmentOf(read, 'hints', true)).toEqual({ effect: 'read', approve: false })
  expect(treatmentOf({}, 'hints', true)).toEqual({ effect: 'write', approve: true })
  expect(treatmentOf({ destructive: false }, 'hints', true)).toEqual({
    effect: 'write',
    approve: false,
  })
  expect(treatmentOf({ destructive: true }, 'hints', true)).toEqual({
    effect: 'write',
    approve: true,
  })
  expect(treatmentOf(read, 'none', true)).toEqual({ effect: 'read', approve: true })
  expect(treatmentOf(read, 'hints', false)).toEqual({ effect: 'write', approve: true })
})

it('cleans what a server says of its tools', () => {
  const [tool] = readTools([
    {
      name: 'a',
      description: `\u001b[31mRed\u001b[0m \u202eevil\u200b ${'x'.repeat(3_000)}`,
      inputSchema: {},
    },
  ])
  expect(tool?.description.startsWith('Red evil x')).toBe(true)
  expect(tool?.description).toHaveLength(2_000)
})
