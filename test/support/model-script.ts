import { setImmediate } from 'node:timers/promises'
import type { Delta, Model, ModelRequest } from '../../core/plugin.ts'

/** One answer of the scripted model. A string is short for `{ text }`. */
export type Answer =
  | string
  | {
      readonly text?: string
      readonly reasoning?: string
      readonly calls?: readonly {
        readonly name: string
        readonly args?: unknown
        readonly id?: string
      }[]
      /** After the words above: a fault, or silence until the request is given up. */
      readonly then?: Error | 'hangs' | 'hangs whatever happens'
    }

/** A model that answers from a script, and keeps what it was asked. */
export interface ScriptedModel extends Model {
  /** Every request, in order. */
  readonly requests: readonly ModelRequest[]
}

/** A fake model that answers from a script, word by word. */
export function modelScript(
  script: readonly Answer[] | ((request: ModelRequest, nth: number) => Answer),
  more: Partial<Model> = {},
): ScriptedModel {
  const requests: ModelRequest[] = []
  const answerTo = (request: ModelRequest): Answer => {
    const nth = requests.push(request) - 1
    if (typeof script === 'function') return script(request, nth)
    const answer = script[nth]
    if (answer === undefined) throw new Error(`the script has no answer number ${nth + 1}`)
    return answer
  }
  return {
    id: 'scripted',
    ...more,
    requests,
    async *stream(request) {
      const answer = answerTo(request)
      const { text, reasoning, calls, then } =
        typeof answer === 'string' ? ({ text: answer } as Exclude<Answer, string>) : answer
      // Word by word, as a network brings them: words of one tick become one event.
      for (const word of words(reasoning)) {
        yield { type: 'reasoning', text: word }
        await setImmediate()
      }
      for (const word of words(text)) {
        yield { type: 'text', text: word }
        await setImmediate()
      }
      for (const [index, { name, args = {}, id }] of (calls ?? []).entries())
        yield* pieces(index, name, typeof args === 'string' ? args : JSON.stringify(args), id)
      if (then instanceof Error) throw then
      if (then)
        await new Promise<never>((_, reject) => {
          if (then === 'hangs')
            request.signal.addEventListener('abort', () => reject(request.signal.reason))
        })
    },
  }
}

function* pieces(
  index: number,
  name: string,
  args: string,
  id = `provider-${index}`,
): Generator<Delta> {
  yield { type: 'tool-call', index, id, name }
  for (let from = 0; from < args.length; from += 7)
    yield { type: 'tool-call', index, args: args.slice(from, from + 7) }
}

const words = (text = ''): string[] => text.match(/\s*\S+|\s+$/g) ?? []
