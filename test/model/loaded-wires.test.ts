import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { fakeProvider } from '#core/testing'
import { callerOf } from '../support/caller.ts'
import { startServer } from '../support/process.ts'

/** Prints every module that the process reads. */
const telling = `
  import { registerHooks } from 'node:module'
  registerHooks({ load: (url, context, next) => (console.log('read ' + url), next(url, context)) })`

/** What belongs to one provider alone: its wire, its rules, or the packages by which it is reached. */
const own = {
  'Messages of anthropic/': /plugins\/models-anthropic\/model[-.]/,
  'generateContent of google/': /plugins\/models-google\/model[-.]/,
  'Ollama of ollama/': /plugins\/models-ollama\/model[-.]/,
  'chat of openai/ and its like': /plugins\/models-openai\/chat\/requests[-.]/,
  'Responses of openai/': /plugins\/models-openai\/responses\/requests[-.]/,
  'the AI SDK': /plugins\/models-ai-sdk\/open[-.]/,
  'packages of the AI SDK': /node_modules\/(@ai-sdk\/|ai-sdk-)/,
  'the demonstration model': 'plugins/models-demo/demo/',
  'packages of LangChain': /node_modules\/@langchain\/(anthropic|openai|google)/,
} as const

type Part = keyof typeof own

/** The parts of providers that a process reads which has carried out a turn with this model. */
async function readFor(MODEL: string | undefined, settings = {}): Promise<Part[]> {
  const provider = await fakeProvider()
  const folder = mkdtempSync(join(tmpdir(), 'read-'))
  const env: Record<string, string> = {}
  for (const [key, address] of [
    ['ANTHROPIC_API_KEY', 'ANTHROPIC_BASE_URL'],
    ['GOOGLE_API_KEY', 'GOOGLE_BASE_URL'],
    ['OPENAI_API_KEY', 'OPENAI_BASE_URL'],
    ['DEEPSEEK_API_KEY', 'DEEPSEEK_BASE_URL'],
    ['OLLAMA_API_KEY', 'OLLAMA_HOST'],
  ] as const)
    Object.assign(env, { [key]: provider.key, [address]: provider.url })
  const server = startServer('server.ts', {
    ...env,
    ...(MODEL && { MODEL }),
    MODEL_SETTINGS: JSON.stringify({ '*': settings }),
    NODE_ENV: 'development',
    DATA_DIR: folder,
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(telling)}`,
  })
  onTestFinished(async () => {
    await server.end('SIGKILL')
    await provider.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const url = await server.url
  const { headers } = await callerOf(url)
  const send = async (path: string, body: object) =>
    await fetch(url + path, {
      method: 'POST',
      headers: { ...(await headers()), 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  const { sessionId } = (await (await send('/sessions', {})).json()) as { sessionId: string }
  const said = await (await send(`/messages/${sessionId}`, { message: 'Hello' })).text()
  expect(said).toContain('"status":"finished"')
  await server.end()
  const read = server.output().match(/^read .*$/gm) ?? []
  expect(read.length).toBeGreaterThan(100)
  return (Object.keys(own) as Part[]).filter((part) =>
    read.some((line) =>
      typeof own[part] === 'string' ? line.includes(own[part]) : own[part].test(line),
    ),
  )
}

it('a process reads the wire of the provider that MODEL names, and of no other', async () => {
  const cases: readonly (readonly [string | undefined, Part, object?])[] = [
    [undefined, 'the demonstration model'],
    ['anthropic/a', 'Messages of anthropic/'],
    ['google/a', 'generateContent of google/'],
    ['ollama/a', 'Ollama of ollama/'],
    ['openai/a', 'chat of openai/ and its like', { wire: 'chat' }],
    ['openai/a', 'Responses of openai/', { wire: 'responses' }],
    ['deepseek/a', 'chat of openai/ and its like'],
  ]
  const found: unknown[] = []
  // Two at once: each is a whole server.
  for (let at = 0; at < cases.length; at += 2)
    found.push(
      ...(await Promise.all(
        cases
          .slice(at, at + 2)
          .map(async ([MODEL, , settings]) => [MODEL, await readFor(MODEL, settings)]),
      )),
    )
  expect(found).toEqual(cases.map(([MODEL, part]) => [MODEL, [part]]))
}, 240_000)
