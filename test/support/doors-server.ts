import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { definePlugin, type Delta, type ModelRequest } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import a2a from '../../plugins/a2a/index.ts'
import agUi from '../../plugins/ag-ui/index.ts'
import aiSdk from '../../plugins/ai-sdk/index.ts'
import openaiApi from '../../plugins/openai-api/index.ts'

// A server with the doors of other protocols in a process of its own, to be killed. Its model begins every answer and ends none,
// unless it is told what to call: `Wipe the logs`, `Where am I?`.
const own = definePlugin({
  name: 'own',
  summary: 'Has a tool.',
  visibility: 'always',
  tools: {
    wipe: {
      description: 'Wipes.',
      approve: true,
      input: z.object({ what: z.string() }),
      run: ({ what }) => (console.log(`wiped ${what}`), 'wiped'),
    },
  },
})

async function* stream({ messages, signal }: ModelRequest): AsyncGenerator<Delta> {
  const content = String(messages.at(-1)?.content)
  const [, what] = /^Wipe the (\w+)$/.exec(content) ?? []
  const called = { type: 'tool-call', index: 0, id: 'call_0' } as const
  if (what) yield { ...called, name: 'wipe', args: JSON.stringify({ what }) }
  else if (content.startsWith('Where')) yield { ...called, name: 'where', args: '{}' }
  else {
    yield { type: 'text', text: 'The ' }
    console.log('answering')
    await sleep(600_000, undefined, { signal })
  }
}

const app = await testApp({
  plugins: [a2a, agUi, aiSdk, openaiApi, own],
  model: { ...scriptedModel([]), stream },
  env: JSON.parse(process.env.DOORS ?? '{}'),
})
console.log(`listening on ${app.url}`)
