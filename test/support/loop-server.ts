import { appendFileSync } from 'node:fs'
import { z } from 'zod'
import { definePlugin } from '#core'
import { createApp } from '../../index.ts'

/**
 * A whole server with the package's own providers of models, for turns with tools that other processes go on with. With
 * the word of HOLDS its tool says in MARKS that it runs, and never ends; with the word of CRASHES the process dies of an exception.
 * With LANGCHAIN_URL its model is LangChain's ChatAnthropic.
 */
const { MARKS = '', HOLDS, CRASHES, LANGCHAIN_URL, LANGCHAIN_KEY } = process.env

const notes = definePlugin({
  name: 'notes',
  summary: 'Notes words.',
  visibility: 'always',
  tools: {
    note: {
      description: 'Notes a word.',
      effect: 'read',
      input: z.object({ word: z.string() }),
      async run({ word }, { session }) {
        if (word === CRASHES)
          setImmediate(() => {
            throw new Error('Nobody catches this.')
          })
        // Only the second step is held, so that the data of the first lies in the journal by then.
        if (word === HOLDS) {
          appendFileSync(MARKS, `held ${session.id}\n`)
          await new Promise(() => {})
        }
        return { noted: word }
      },
    },
    keep: {
      description: 'Keeps a word for good.',
      input: z.object({ word: z.string() }),
      approve: true,
      run({ word }) {
        appendFileSync(MARKS, `keep ${word}\n`)
        return { kept: word }
      },
    },
  },
})

const model = LANGCHAIN_URL
  ? new (await import('@langchain/anthropic')).ChatAnthropic({
      model: 'fake',
      apiKey: LANGCHAIN_KEY,
      anthropicApiUrl: LANGCHAIN_URL,
      maxRetries: 0,
      maxTokens: 8000,
      thinking: { type: 'enabled', budget_tokens: 2000 },
    })
  : undefined

const app = await createApp({ plugins: [notes], model })
await app.listen()
process.once('SIGTERM', () => void app.close().then(() => process.exit(0)))
