import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import a2a from '../a2a/index.ts'
import agUi from '../ag-ui/index.ts'
import aiSdk from '../ai-sdk/index.ts'
import { mcp } from '../mcp/index.ts'
import openaiApi from '../openai-api/index.ts'
import connect from './index.ts'

const run = (...args: string[]) =>
  promisify(execFile)(
    process.execPath,
    [
      '--disable-warning=ExperimentalWarning',
      '--conditions=oracle-runtime-source',
      join(import.meta.dirname, 'cli.ts'),
      ...args,
    ],
    { env: { PATH: process.env.PATH } },
  )

test('says what to paste, and asks once by each protocol', async () => {
  const model = scriptedModel(['One.', 'Over MCP.', 'Two.', 'Three.', new Error('down')])
  await using app = await testApp({
    plugins: [a2a, agUi, aiSdk, connect, mcp, openaiApi],
    model,
  })
  const user = await app.user()
  const key = String((await user.post('/keys', { name: 'tries' })).body.key)
  const { stdout } = await run('--url', app.url)
  for (const path of [
    '/openai/v1',
    '/mcp',
    '/ai-sdk/chat',
    '/ag-ui',
    '/.well-known/agent-card.json',
  ])
    expect(stdout).toContain(`${app.url}${path}`)
  expect(stdout).not.toContain(key)
  const { doors } = (await app.get('/connect')).body
  for (const { title, lines } of doors) expect(stdout).toContain(lines.split('\n')[0])
  expect(doors).toHaveLength(5)
  const tried = await run('--url', app.url, '--key', key, '--try').catch((error) => error)
  expect(tried.stdout.split('\n').slice(0, 4)).toEqual([
    'openai-api: One.',
    'mcp: Over MCP.',
    'ai-sdk: Two.',
    'ag-ui: Three.',
  ])
  expect([tried.code, tried.stdout]).toEqual([1, expect.stringContaining('a2a: ')])
  const wrong = await run('--url', app.url, '--key', 'ok_wrong', '--try').catch((error) => error)
  expect(wrong.stdout.match(/failed, 401/gu)).toHaveLength(5)
  const nobody = await run('--url', 'http://127.0.0.1:9').catch((error) => error)
  expect([nobody.code, nobody.stdout]).toEqual([1, expect.stringContaining('No server answers')])
})
