import { randomUUID } from 'node:crypto'
import { appendFileSync, existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { NewTurn } from '../../core/plugin.ts'
import { openDataDir } from '../../core/runtime/store/data-dir.ts'
import type { RunMoment } from '../../core/runtime/turns/carry/carried-run.ts'
import type { Engine } from '../../core/runtime/turns/run.ts'
import { dieAt } from './die-at.ts'
import { say, stopped } from './fake-engines.ts'
import { startServer } from './server.ts'

/** What a server is told on its command line. */
export interface ServerSettings {
  readonly databaseUrl?: string
  readonly dataDir?: string
  readonly leaseMs?: number
  /** The file in which every payment is noted, one a line: it stands for the world outside. */
  readonly payments: string
  /** Where the process ends itself: at a moment of the run, or at one of the engine. */
  readonly dies?: {
    readonly at: RunMoment | 'in the effect' | 'in the answer'
    readonly nth?: number
  }
  /** How long the words of the answer take. */
  readonly pauseMs?: number
  /** Whether messages may end the process, until there is a file of payments. */
  readonly obedient?: boolean
  /** Whether each line of the input is a turn that a plugin starts; the server prints what the turn began as. */
  readonly hears?: boolean
}

const {
  databaseUrl,
  dataDir,
  leaseMs = 10_000,
  payments,
  dies,
  pauseMs = 5,
  obedient = false,
  hears = false,
} = JSON.parse(process.argv[2] ?? '{}') as ServerSettings

const dieIn = (place: string) => {
  if (dies?.at === place) process.kill(process.pid, 'SIGKILL')
}

/**
 * A fake of the engine, which announces a payment, makes the payment, and says that it was made: in three steps. `Hold`
 * waits between the first two.
 */
const payingEngine: Engine = async (run) => {
  const toolCallId = `pay-${run.runId}`
  const steps = run.takenOver ? await run.journal.read() : []
  if (steps.length < 1) {
    run.emit('message', { content: 'Paying. ' })
    const toolCalls = [{ id: toolCallId, name: 'pay', args: { amount: 5 } }]
    await run.journal.append({
      messages: [{ role: 'assistant', id: randomUUID(), content: 'Paying. ', toolCalls }],
    })
  }
  while (run.request.message === 'Hold' && !existsSync(`${payments}-go`)) await sleep(20)
  if (steps.length < 2) {
    const effect = await run.effects.begin(toolCallId, 'pay')
    let content = effect.state === 'done' ? effect.content : 'interrupted, outcome unknown'
    if (effect.state === 'new') {
      appendFileSync(payments, `${toolCallId}\n`)
      dieIn('in the effect')
      content = 'paid 5'
      await run.effects.finish(toolCallId, content, false)
    }
    await run.journal.append({
      messages: [{ role: 'tool', id: randomUUID(), toolCallId, name: 'pay', content }],
    })
  }
  if (steps.length < 3) {
    let said = ''
    for (const word of ['It ', 'is ', 'all ', 'done ', 'now.']) {
      await sleep(pauseMs)
      if (run.signal.aborted) return stopped(run, said)
      run.emit('message', { content: word })
      said += word
      if (said === 'It is all ') {
        await sleep(pauseMs)
        dieIn('in the answer')
      }
    }
    await run.journal.append({
      messages: [{ role: 'assistant', id: randomUUID(), content: said }],
    })
  }
  return { status: 'finished' }
}

/**
 * Does what its message says: `Die` ends the process, `Die late` after some words, `Die on the way` after each of three
 * steps; `Slow` takes two seconds.
 */
const obedientEngine: Engine = async (run) => {
  const { message } = run.request
  if (message.startsWith('Die')) {
    if (message === 'Die on the way') {
      const { length } = run.takenOver ? await run.journal.read() : []
      if (length === 3) {
        await say(run, 'I arrived.')
        return { status: 'finished' }
      }
      const step = { role: 'assistant', id: randomUUID(), content: `Step ${length + 1}. ` } as const
      await run.journal.append({ messages: [step] }, 'now')
      await run.journal.flush()
    }
    if (message === 'Die late') {
      run.emit('message', { content: 'I am on' })
      await sleep(600)
    }
    if (!existsSync(payments)) {
      appendFileSync(`${payments}-deaths`, `${run.runId}\n`)
      process.kill(process.pid, 'SIGKILL')
    }
    await say(run, 'I live.')
    return { status: 'finished' }
  }
  if (message !== 'Slow') return payingEngine(run)
  run.emit('message', { content: 'Slowly, ' })
  await sleep(2_000)
  if (run.signal.aborted) return stopped(run, 'Slowly, ')
  run.emit('message', { content: 'but surely.' })
  await say(run, 'Slowly, but surely.')
  return { status: 'finished' }
}

const isMoment = dies && dies.at !== 'in the effect' && dies.at !== 'in the answer'
const { url, runs, close } = await startServer({
  engine: obedient ? obedientEngine : payingEngine,
  databaseUrl,
  dataDir: dataDir ? await openDataDir(dataDir) : undefined,
  leaseMs,
  at: isMoment ? dieAt(dies.at as RunMoment, dies.nth) : undefined,
})
console.log(url)
if (hears)
  createInterface({ input: process.stdin }).on('line', (line) => {
    const turn: NewTurn = JSON.parse(line)
    void runs
      .turnsOf('clerk')
      .start(turn)
      .begun.then((begun) => console.log(JSON.stringify(begun)))
  })
process.once('SIGTERM', () => void close().then(() => process.exit(0)))
