import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Engine, Run } from '../../core/runtime/turns/run.ts'

/** Says words with a pause between them, writes down what it said, and is done. A fake of the engine. */
export function sayingEngine(words: readonly string[], pauseMs = 0): Engine {
  return async (run) => {
    let said = ''
    for (const word of words) {
      if (pauseMs > 0) await sleep(pauseMs)
      if (run.signal.aborted) return stopped(run, said)
      run.emit('message', { content: word })
      said += word
    }
    await say(run, said)
    return { status: 'finished' }
  }
}

/** What the real engine does when it is told to stop: keep what was said, or let go at once. */
export async function stopped(run: Run, said: string) {
  const { reason } = run.signal
  if (reason?.name === 'RunLost') throw reason
  if (said !== '')
    await run.journal.append({
      messages: [{ role: 'assistant', id: randomUUID(), content: said }],
      partial: true,
    })
  return { status: 'aborted' as const }
}

export function say(run: Run, content: string): Promise<void> {
  return run.journal.append({ messages: [{ role: 'assistant', id: randomUUID(), content }] })
}

/** A turn with two rounds of tools between words, the way the real engine emits and writes it. A fake of the engine. */
export function toolEngine(pauseMs = 1): Engine {
  return async (run) => {
    for (const round of [1, 2]) {
      const id = `call-${run.runId}-${round}`
      const args = { round }
      run.emit('message', { content: `Round ${round}. ` })
      await sleep(pauseMs)
      await run.journal.append({
        messages: [
          {
            role: 'assistant',
            id: randomUUID(),
            content: `Round ${round}. `,
            toolCalls: [{ id, name: 'look_up', args }],
          },
        ],
      })
      const call = { eventId: id, toolName: 'look_up', args }
      run.emit('tool_call', { ...call, status: 'isRunning' })
      await sleep(pauseMs)
      run.emit('render_component', { eventId: `card-${id}`, componentName: 'Card', args })
      run.emit('progress', { toolCallId: id, done: round })
      await sleep(pauseMs)
      run.emit('tool_call', { ...call, status: 'done', output: `found ${round}` })
      await run.journal.append({
        messages: [
          {
            role: 'tool',
            id: randomUUID(),
            toolCallId: id,
            name: 'look_up',
            content: `found ${round}`,
          },
        ],
        components: [{ eventId: `card-${id}`, toolCallId: id, name: 'Card', args }],
      })
    }
    run.emit('reasoning', { reasoning: 'Both were found.', isComplete: true })
    for (const word of ['That ', 'is ', 'all.']) {
      run.emit('message', { content: word })
      await sleep(pauseMs)
    }
    await say(run, 'That is all.')
    return { status: 'finished' }
  }
}
