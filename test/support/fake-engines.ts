import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Engine, Run } from '../../core/runtime/turns/run.ts'

/** A fake of the engine, which says words with a pause between them, writes its words into the journal, and is done. */
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

/** Does what the real engine does when a run is stopped: keeps what was said, or lets go at once. */
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

/** Adds what the assistant said to the journal of a run. */
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

/** A talk lasts half a second: long enough that a busy machine can stop it in the middle. */
const wordsOfATalk = 50

/** Talks until it is told to stop, then takes a moment to let go; notes when which run was at it. A fake of the engine. */
export function slowToStop(log: string[], stopMs = 30): Engine {
  return async (run) => {
    const { message } = run.request
    log.push(`begin ${message}`)
    let said = ''
    for (let i = 0; i < wordsOfATalk && !run.signal.aborted; i++) {
      run.emit('message', { content: `${message} ` })
      said += `${message} `
      await sleep(10)
    }
    if (run.signal.aborted) {
      await sleep(stopMs)
      const end = await stopped(run, said)
      log.push(`stop ${message}`)
      return end
    }
    await say(run, said)
    log.push(`finish ${message}`)
    return { status: 'finished' }
  }
}

/** Speaks until it is told to stop; `heard` gets the moment at which its signal fired. A fake of the engine. */
export function talkingEngine(heard: (at: number) => void = () => {}): Engine {
  return async (run) => {
    run.signal.addEventListener('abort', () => heard(performance.now()))
    let said = ''
    while (!run.signal.aborted) {
      run.emit('message', { content: 'word ' })
      said += 'word '
      await sleep(10)
    }
    return stopped(run, said)
  }
}

/** Does not listen to its signal: it goes on for as long as nobody ends it. A fake of the engine. */
export const deafEngine: Engine = async (run) => {
  run.emit('message', { content: 'I never stop.' })
  await sleep(60_000, undefined, { ref: false })
  return { status: 'finished' }
}

/** Turns that go on until they are let go, stopped or told how to end by their message. A fake of the engine. */
export function holdingEngine() {
  const open = new Set<() => void>()
  const engine: Engine = async (run) => {
    const { message } = run.request
    if (message === 'fail') throw new Error('The engine broke.')
    if (message === 'ask' && !run.continues) {
      const call = { toolCallId: `pay-${run.runId}`, toolName: 'pay', args: {} }
      await run.journal.append({
        messages: [
          {
            role: 'assistant',
            id: randomUUID(),
            content: 'May I?',
            toolCalls: [{ id: call.toolCallId, name: 'pay', args: {} }],
          },
        ],
        waits: call,
      })
      run.emit('interrupt', { kind: 'approval', ...call })
      return { status: 'waiting' }
    }
    run.emit('message', { content: 'Well, ' })
    if (message !== 'quick')
      await new Promise<void>((resolve) => {
        open.add(resolve)
        run.signal.addEventListener('abort', () => resolve(), { once: true })
      })
    if (run.signal.aborted) return stopped(run, 'Well, ')
    await say(run, 'Well, that is it.')
    return { status: 'finished' }
  }
  return {
    engine,
    letGo() {
      for (const end of open) end()
      open.clear()
    },
  }
}

/** Says what it was told a few times over. A fake of the engine. */
export const echoEngine: Engine = async (run) => {
  for (let i = 0; i < 5; i++) {
    run.emit('message', { content: `${run.request.message};` })
    await sleep(10)
  }
  await say(run, `${run.request.message};`.repeat(5))
  return { status: 'finished' }
}

/** Says so many megabytes in pieces of a kilobyte, a few in every tick. A fake of the engine. */
export const longWindedEngine =
  (megabytes: number): Engine =>
  async (run) => {
    let said = ''
    for (let i = 0; i < megabytes * 1024; i++) {
      const content = `${String(i).padStart(8, '0')}${'x'.repeat(1016)}`
      run.emit('message', { content })
      said += content
      if (i % 8 === 7) await new Promise((resolve) => setImmediate(resolve))
    }
    await say(run, said)
    return { status: 'finished' }
  }
