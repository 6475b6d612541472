import { appendFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { createApp, definePlugin, type Model } from '#core'
import messaging from '../../plugins/messaging/index.ts'

/**
 * A whole server whose oracle answers on a messaging server, for tests that end it in the middle. It ends itself by SIGKILL at the moment
 * that a line of its input names: the next time that it comes there. DOORS is the file in which its tool notes what it
 * did; NAME is what the messaging server knows the process by.
 */
const { DOORS = '', NAME = 'oracle' } = process.env

let armed = ''
/** Whether a message has come since the moment was named, and whether the model has said its last word since. */
let [heard, saidAll] = [false, false]

createInterface({ input: process.stdin }).on('line', (line) => {
  armed = line
  heard = saidAll = false
  console.log(`armed: ${line}`)
})

function at(moment: string): void {
  if (armed === moment) process.kill(process.pid, 'SIGKILL')
}

/** Whether a sync brings somebody's words. */
const hasWords = (text: string) => /"type":"m\.room\.(?:encrypted|message)"/.test(text)

const watched: typeof fetch = async (input, init) => {
  const url = String(input)
  const isSend = init?.method === 'PUT' && url.includes('/send/')
  if (url.includes('/sync?') && heard) at('after the row')
  if (isSend && saidAll) at('before the final edit')
  const isFinal = isSend && saidAll
  const headers = { ...Object.fromEntries(new Headers(init?.headers)), 'user-agent': NAME }
  const answer = await fetch(input, { ...init, headers })
  if (isSend) at('after the first send')
  if (isFinal) at('after the final edit')
  if (!url.includes('/sync?')) return answer
  const text = await answer.text()
  if (hasWords(text)) {
    at('before the row')
    heard = true
  }
  return new Response(text, answer)
}

const doors = definePlugin({
  name: 'doors',
  summary: 'Opens doors.',
  visibility: 'always',
  tools: {
    open_door: {
      description: 'Opens a door.',
      input: z.object({ door: z.string() }),
      effect: 'write',
      run({ door }) {
        appendFileSync(DOORS, `${door}\n`)
        at('in the write')
        return { opened: door }
      },
    },
  },
})

const model: Model = {
  id: 'echo',
  async *stream({ messages }) {
    at('after the run began')
    const last = messages.at(-1)
    const asked = messages.findLast(({ role }) => role === 'user')?.content ?? ''
    const [, door] = /open the (\w+) door/.exec(asked) ?? []
    if (door !== undefined && last?.role !== 'tool') {
      const args = JSON.stringify({ door })
      yield { type: 'tool-call', index: 0, id: `call-${door}`, name: 'open_door', args }
      return
    }
    const [, name = 'nothing'] = /(question \w+)/.exec(asked) ?? []
    for (let n = 0; n < 24; n++) {
      yield { type: 'text', text: `word${n} ` }
      await sleep(30)
    }
    yield { type: 'text', text: `and that was ${name}.` }
    saidAll = true
  },
}

const app = await createApp({ plugins: [messaging, doors], model, fetch: watched })
await app.listen()
process.once('SIGTERM', () => void app.close().then(() => process.exit(0)))
