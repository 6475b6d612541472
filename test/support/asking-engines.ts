import { randomUUID } from 'node:crypto'
import type { Engine } from '../../core/runtime/turns/run.ts'
import { say } from './fake-engines.ts'

/** What the tool `pay` is called with. */
export const args = { amount: 5 }

/** Asks before it pays, and reads its journal when it goes on. A fake of the engine. */
export const askingEngine: Engine = async (run) => {
  if (run.request.message === 'thanks') {
    await say(run, 'You are welcome.')
    return { status: 'finished' }
  }
  if (!run.continues) {
    const toolCallId = `pay-${run.runId}`
    run.emit('message', { content: 'May I? ' })
    await run.journal.append({
      messages: [
        {
          role: 'assistant',
          id: randomUUID(),
          content: 'May I? ',
          toolCalls: [{ id: toolCallId, name: 'pay', args }],
        },
      ],
      waits: { toolCallId, toolName: 'pay', args },
    })
    run.emit('interrupt', { kind: 'approval', toolName: 'pay', args, toolCallId })
    return { status: 'waiting' }
  }
  const steps = await run.journal.read()
  const waits = steps.at(-1)?.waits
  if (!waits) throw new Error('Nothing waits')
  const { decision } = run.continues.decision
  const { state } = await run.effects.begin(waits.toolCallId, waits.toolName)
  const content = decision === 'approve' ? `paid (${state})` : 'not paid'
  await run.effects.finish(waits.toolCallId, content, false)
  await run.journal.append({
    messages: [
      { role: 'tool', id: randomUUID(), toolCallId: waits.toolCallId, name: 'pay', content },
    ],
  })
  run.emit('message', { content })
  await say(run, `${run.request.message}: ${content}`)
  return { status: 'finished' }
}

/** Asks the browser for its position. A fake of the engine. */
export const locatingEngine: Engine = async (run) => {
  const toolCallId = `where-${run.runId}`
  run.emit('browser_tool_call', { toolCallId, toolName: 'locate', args: {} })
  const answer = await run
    .clientResult(toolCallId, Number(run.request.metadata?.timeoutMs ?? 5_000))
    .catch((error: Error) => ({ error: error.message }))
  await say(run, JSON.stringify(answer))
  return { status: 'finished' }
}
