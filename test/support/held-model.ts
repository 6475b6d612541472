import type { Delta, Model, ModelRequest } from '../../core/plugin.ts'
import { scriptedModel, type ScriptedStep } from '../../core/testing/scripted-model.ts'

/** A fake model whose answer stops half way, until a test lets it go on. */
export interface HeldModel extends Model {
  readonly requests: readonly ModelRequest[]
  /** Says the rest. */
  goOn(): void
}

/** Makes a model that does the earlier steps, if any, then says the first pieces of an answer, and the rest at `goOn`. */
export function heldModel(
  first: readonly string[],
  rest: readonly string[],
  before: readonly ScriptedStep[] = [],
): HeldModel {
  const scripted = scriptedModel(before)
  const requests: ModelRequest[] = []
  const held = Promise.withResolvers<void>()

  async function* answer({ signal }: ModelRequest): AsyncGenerator<Delta> {
    for (const text of first) yield { type: 'text', text }
    const stopped = Promise.withResolvers<never>()
    const stop = () => stopped.reject(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
    try {
      await Promise.race([held.promise, stopped.promise])
    } finally {
      signal.removeEventListener('abort', stop)
    }
    for (const text of rest) {
      yield { type: 'text', text }
      // The next piece is an event of its own.
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  return {
    id: 'held',
    requests,
    goOn: held.resolve,
    stream(request) {
      requests.push(request)
      return scripted.remaining > 0 ? scripted.stream(request) : answer(request)
    },
  }
}
