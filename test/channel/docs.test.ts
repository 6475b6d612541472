import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { closings } from '../../core/runtime/channel/peer.ts'
import { scriptedModel, testApp } from '#core/testing'
import { tokensOf } from '../support/sockets.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/events.md'), 'utf8')

describe('the page about events', () => {
  it('has a client of thirty lines that hears, answers and connects again', async () => {
    const [, client = ''] = /```js\n(.*?)```/s.exec(page) ?? []
    expect(client.split('\n').filter((line) => line.trim()).length).toBeLessThanOrEqual(30)
    const folder = mkdtempSync(join(tmpdir(), 'oracle-runtime-client-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const file = join(folder, 'client.mjs')
    writeFileSync(file, client)

    const model = scriptedModel([
      [
        { call: 'page_title', args: { of: 'this' } },
        { call: 'page_title', args: null },
      ],
      { text: ['It is so.'] },
    ])
    await using app = await testApp({ plugins: [], model })
    const user = await app.user()
    const { sessionId } = (await user.post('/sessions')).body
    const { invocation } = await tokensOf(user, app.oracleDid)
    const child = spawn(process.execPath, [file, app.url, sessionId, invocation])
    onTestFinished(() => void child.kill())
    let output = ''
    const told = async (text: string) => {
      while (!output.includes(text)) await new Promise((resolve) => setTimeout(resolve, 10))
    }
    child.stdout.on('data', (bytes) => (output += bytes))
    child.stderr.on('data', (bytes) => (output += bytes))
    await told('connected')
    const tools = [{ name: 'page_title', description: 'A title.', schema: {} }]
    await user.post(`/messages/${sessionId}`, { message: 'What is it?', stream: false, tools })
    await told('finished')
    expect(output).toContain('It is so.')
    expect(model.requests[1]!.messages.at(-2)!.content).toBe('The title of this')
    await user.delete(`/sessions/${sessionId}`)
    await told('4403')
  })

  it('names every way in which a socket ends', () => {
    for (const [code] of Object.values(closings))
      if (code !== 1000) expect(page).toContain(`| ${code} |`)
  })

  it('names every event that the kernel sends', () => {
    const source = readFileSync(
      join(import.meta.dirname, '../../core/runtime/agent/tools/narrator.ts'),
      'utf8',
    )
    const sent = [...source.matchAll(/#tell\('(\w+)'/g)].map(([, name]) => name)
    expect(sent.length).toBeGreaterThan(8)
    for (const name of [...sent, 'run', 'done'])
      expect(page).toMatch(new RegExp(`^\\| .*\`${name}\``, 'm'))
  })
})
