import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import openaiApi from 'oracle-runtime/plugins/openai-api'
import { scriptedModel, testApp } from 'oracle-runtime/testing'

const script = join(import.meta.dirname, 'main.ts')

it('the script prints the answer as it comes, and says what is wrong with a key', async () => {
  await using app = await testApp({
    plugins: [openaiApi],
    model: scriptedModel([{ text: ['Rain, ', 'and 18 °C.'] }]),
  })
  const user = await app.user()
  const { key } = (await user.post('/keys', { name: 'script' })).body
  const run = (ORACLE_KEY: string) =>
    promisify(execFile)(process.execPath, [script, '--url', app.url, 'How is the weather?'], {
      env: { PATH: process.env.PATH, ORACLE_KEY },
    })
  expect((await run(key)).stdout).toBe('Rain, and 18 °C.\n')
  await expect(run('ok_wrong')).rejects.toMatchObject({
    stderr: expect.stringContaining('invalid_api_key'),
  })
}, 30_000)
