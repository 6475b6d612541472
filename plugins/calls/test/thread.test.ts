import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { root } from '../../../test/support/process.ts'

test('the thread of sound starts whatever options the process has', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'calls-thread-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const program = join(folder, 'program.mjs')
  await writeFile(
    program,
    `const { Media } = await import(${JSON.stringify(join(root, 'plugins/calls/media/media.ts'))})
    const media = new Media()
    const offer = { sdp: 'none', place: { ports: [40000, 40010], isLocal: true }, silenceMs: 600 }
    await media.open('a', offer, ({ type }) => console.log(type)).catch(() => {})
    await media.end()`,
  )
  const options = ['--expose-gc', '--max-old-space-size=512', '--conditions=oracle-runtime-source']
  const { stdout } = await promisify(execFile)(process.execPath, [...options, program])
  // The thread itself says that the offer is none.
  expect(stdout.trim()).toBe('failed')
})
