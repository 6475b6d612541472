import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import calls from '../../plugins/calls/index.ts'
import playground from '../../plugins/playground/index.ts'
import { builtPage } from '../../test/support/built-page.ts'
import { root } from '../../test/support/process.ts'
import { describeWith, isCommand } from '../../test/support/services.ts'

/** Runs the example as its command in package.json does. */
async function run(url: string, ...args: readonly string[]) {
  const main = join(root, 'examples/call/main.ts')
  const child = spawn(
    process.execPath,
    ['--conditions=oracle-runtime-source', main, '--url', url, ...args],
    { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  const [said, complained, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ])
  return { said, complained, code }
}

await describeWith('chromium', 'the example of a call', () => {
  if (!isCommand('espeak-ng') && !process.env.REQUIRE_ALL)
    return it.skip('needs espeak-ng', () => {})

  it('plays a question, and prints captions, times and where the sound went', async () => {
    await builtPage()
    await using app = await testApp({
      plugins: [playground, calls],
      model: scriptedModel(['The sun shines.']),
      env: {
        NODE_ENV: 'development',
        CALLS_HEARING: 'command',
        CALLS_HEARING_COMMAND: '["sh","-c","cat > /dev/null; echo How is the weather?"]',
      },
    })
    const { said, complained, code } = await run(app.url, '--say', 'How is the weather?')
    expect(complained).toBe('')
    expect(said).toContain('The oracle’s own server turns your speech into text (sh).')
    expect(said).toContain('The oracle’s own server speaks the answers (espeak-ng).')
    expect(said).toMatch(/ \d+\.\d s {2}You: How is the weather\?/)
    expect(said).toMatch(/ \d+\.\d s {2}Oracle: The sun shines\./)
    expect(said).toMatch(/ \d+\.\d s {2}The oracle is heard\./)
    expect(said).toMatch(/From the last word to the first sound: \d+ ms\./)
    expect(said).toMatch(/Sent [1-9]\d+ and received [1-9]\d+ bytes of sound, connected, .*A/)
    expect(code).toBe(0)
  }, 240_000)

  it('types where nothing at the server hears, which nobody has set, and opens no microphone', async () => {
    await builtPage()
    await using app = await testApp({
      plugins: [playground, calls],
      model: scriptedModel(['First this.\n\nThen that.']),
      env: { NODE_ENV: 'development' },
    })
    const { said, complained, code } = await run(app.url, '--say', 'How is the weather?')
    expect(complained).toBe('')
    expect(said).toContain('Nothing at the server hears: the words are typed.')
    expect(said).toMatch(/ \d+\.\d s {2}You: How is the weather\?/)
    expect(said).toMatch(/ \d+\.\d s {2}Oracle: Then that\./)
    expect(said).not.toMatch(/Oracle:\s*$/m)
    expect(said).toMatch(/Sent 0 and received [1-9]\d+ bytes of sound, connected, .*A/)
    expect(code).toBe(0)
  }, 240_000)

  it('says what to do where no server answers', async () => {
    const { complained, code } = await run('http://127.0.0.1:9')
    expect(complained).toContain(
      'No server answers at http://127.0.0.1:9: start one by "npm start".',
    )
    expect(code).toBe(1)
  }, 60_000)

  it('calls nobody who passes the sound on without being told to', async () => {
    await builtPage()
    await using app = await testApp({
      plugins: [playground, calls],
      model: scriptedModel([]),
      env: { NODE_ENV: 'development', CALLS_HEARING: 'openai', CALLS_SPEECH_KEY: 'a-key' },
    })
    const { said, complained, code } = await run(app.url)
    expect(said).toContain('Your speech goes to api.openai.com')
    expect(complained).toContain('add --consent "api.openai.com"')
    expect(code).toBe(1)
  }, 240_000)
})
