import { setTimeout as pause } from 'node:timers/promises'
import type { Delta, Model, ModelReply, ModelRequest } from '../../plugin.ts'
import { Assembly } from '../../runtime/model/assemble.ts'

/** How long the contract waits for one answer. */
export const patienceMs = 120_000

/** One answer of a model as the contract heard it. */
export interface HeardReply {
  readonly deltas: readonly Delta[]
  readonly reply: ModelReply
  /** What ended the answer before its time. */
  readonly error?: unknown
}

/** Asks a model once and hears the answer to its end. `way` chooses which of its two methods is asked. */
export async function hear(
  model: Model,
  request: Omit<ModelRequest, 'signal'>,
  way: 'stream' | 'streamTo' = 'stream',
): Promise<HeardReply> {
  const deltas: Delta[] = []
  const assembly = new Assembly()
  const take = (delta: Delta) => {
    deltas.push(delta)
    assembly.add(delta)
  }
  const limit = new AbortController()
  const whole = { ...request, signal: limit.signal }
  try {
    const hearing =
      way === 'streamTo' && model.streamTo
        ? model.streamTo(whole, take)
        : takeAll(model.stream(whole), take)
    await orTooLong(hearing, limit)
    return { deltas, reply: assembly.reply() }
  } catch (error) {
    return { deltas, reply: assembly.reply(), error }
  }
}

async function takeAll(deltas: AsyncIterable<Delta>, take: (delta: Delta) => void): Promise<void> {
  for await (const delta of deltas) take(delta)
}

/** Waits for an answer, but not for ever; a model may ignore its signal too. */
export async function orTooLong<T>(answer: Promise<T>, limit: AbortController): Promise<T> {
  const timer = new AbortController()
  const late = pause(patienceMs, undefined, { signal: timer.signal }).then(() => {
    const error = new Error(`The answer did not end within ${patienceMs / 1000} seconds.`)
    limit.abort(error)
    throw error
  })
  late.catch(() => {}) // nobody hears it once the answer is there
  try {
    return await Promise.race([answer, late])
  } finally {
    timer.abort()
  }
}

/**
 * Whether a promise settles within so many milliseconds. They pass in ten beats, each of which gives the process a turn:
 * a machine that stood still in between has not made the model late.
 */
export async function settlesWithin(ms: number, promise: Promise<unknown>): Promise<boolean> {
  let isSettled = false
  const settle = () => {
    isSettled = true
  }
  promise.then(settle, settle)
  for (let beat = 0; beat < 10 && !isSettled; beat++) await pause(ms / 10)
  return isSettled
}
