import { setTimeout as pause } from 'node:timers/promises'
import { createApp, type Model } from '#core'

/** A server that dies by SIGKILL in the middle of each answer to words with "die" in them, and whose model fails at "fail". */
const model: Model = {
  id: 'dying/one',
  contextWindow: undefined,
  async *stream({ messages }) {
    const words = messages.findLast(({ role }) => role === 'user')?.content ?? ''
    yield { type: 'text', text: 'I begin' }
    await pause(700)
    if (words.includes('die')) process.kill(process.pid, 'SIGKILL')
    if (words.includes('fail')) throw new Error('The line is dead.')
    yield { type: 'text', text: ' and end.' }
  },
}
await createApp({ plugins: [], model }).listen()
