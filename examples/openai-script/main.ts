import { readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'

// Asks an oracle by the OpenAI API, as any script does that knows nothing else of it. Start a server with `npm start`, make a key
// with `npm run key`, and then:
//
//     ORACLE_KEY=ok_… node examples/openai-script/main.ts "What is the weather in Lusaka?"

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    url: { type: 'string', default: process.env.ORACLE_URL ?? 'http://127.0.0.1:3000' },
    file: { type: 'string' },
  },
})
const key = process.env.ORACLE_KEY
if (!key) throw new Error('ORACLE_KEY is not set: "npm run key" makes one.')
const question = values.file ? await readFile(values.file, 'utf8') : positionals.join(' ')

const answer = await fetch(new URL('/openai/v1/chat/completions', values.url), {
  method: 'POST',
  headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
  body: JSON.stringify({
    model: 'oracle',
    messages: [{ role: 'user', content: question || 'What can you do?' }],
    stream: true,
  }),
})
if (!answer.ok || !answer.body) throw new Error(`${answer.status}: ${await answer.text()}`)

let rest = ''
for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + piece).split('\n')
  rest = lines.pop() ?? ''
  for (const line of lines) {
    if (!line.startsWith('data: ') || line === 'data: [DONE]') continue
    const { choices, error } = JSON.parse(line.slice(6))
    if (error) throw new Error(error.message)
    process.stdout.write(choices[0]?.delta.content ?? '')
  }
}
process.stdout.write('\n')
