import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import mcpServers from './index.ts'

const notes = definePlugin({ name: 'notes', summary: 'Keeps notes.' })

/** Boots an app with these servers; a turn shows that the rest of it works. */
async function booted(servers: string, first: readonly ScriptedStep[] = []) {
  const model = scriptedModel([...first, 'Here.'])
  const app = await testApp({
    plugins: [mcpServers, notes],
    model,
    env: { MCP_SERVERS: servers },
  })
  onTestFinished(() => app.close())
  const user = await app.user()
  expect((await user.say('Hello')).text).toBe('Here.')
  const { body } = await app.get('/health')
  const names = app.report.plugins.map(({ name }) => name)
  return { body, names, prompt: String(model.requests[0]?.messages[0]?.content) }
}

const good = { command: 'good-server', oracle: { access: 'everyone' } }
const json = (mcpServers: object) => JSON.stringify({ mcpServers })

it.each([
  ['a file that is not there', '/nowhere/mcp.json', 'Give a path that exists, or the JSON itself'],
  ['what is no JSON', '{ "mcpServers": {', 'this is no JSON'],
  ['no servers', '{ "tools": {} }', 'Write { '],
])('%s stops nothing, and is named with the remedy', async (_, servers, remedy) => {
  const { body, names } = await booted(servers)
  expect(names).toContain('mcp')
  expect(JSON.stringify(body)).toContain(remedy)
})

it.each([
  ['command and url', { command: 'a', url: 'https://mcp.example' }, 'Keep one of them'],
  ['neither', {}, 'command'],
  ['a variable that is missing', { command: 'a', env: { TOKEN: '${MISSING}' } }, 'MISSING'],
  ['an input of an editor', { command: 'a', args: ['${input:key}'] }, 'input:key'],
  ['plain http to another host', { url: 'http://mcp.example/mcp' }, 'https'],
  ['an address that is none', { url: 'ftp://mcp.example' }, 'http'],
])('a server with %s is left out alone', async (_, server, remedy) => {
  const { body, names, prompt } = await booted(json({ bad: server, good }))
  expect(names).toContain('good')
  expect(names).not.toContain('bad')
  expect(prompt).toContain('good')
  expect(JSON.stringify(body)).toMatch(new RegExp(`bad: .*${remedy}`))
})

it('a server with the name of a plugin has another, and so has the second of two that become one', async () => {
  const { names } = await booted(
    json({ notes: good, 'My Files': good, 'my files': good, mcp: good }),
  )
  expect(names.filter((name) => name === 'notes')).toHaveLength(1)
  expect(names).toContain('mcp-notes')
  expect(names).toContain('my-files')
  expect(names).toContain('mcp-my-files')
  expect(names).toContain('mcp-mcp')
})

it('signs of a shell in a command are no shell’s', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'mcp-shell-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'mcp.json')
  const evil = { command: `true; touch ${folder}/done`, args: ['&&', `touch ${folder}/done`] }
  writeFileSync(path, json({ evil: { ...evil, oracle: { access: 'everyone' } } }))
  const { body, names } = await booted(path, [call('load_capability', { names: ['evil'] })])
  expect(names).toContain('evil')
  expect(JSON.stringify(body)).toContain('cannot start')
  expect(existsSync(join(folder, 'done'))).toBe(false)
})
