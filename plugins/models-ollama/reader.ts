import { callSlots, tokenCount, type Delta, type FrameReader, type ModelUsage } from '#core/models'

/** The fields of a line that `LineReader` reads. A foreign server sends them, so each is checked where it is used. */
interface Line {
  readonly message?: {
    readonly content?: unknown
    readonly thinking?: unknown
    readonly tool_calls?: unknown
  } | null
  readonly done?: unknown
  readonly done_reason?: unknown
  readonly prompt_eval_count?: unknown
  readonly eval_count?: unknown
}
interface Call {
  readonly id?: unknown
  readonly function?: { readonly name?: unknown; readonly arguments?: unknown } | null
}

/** Reads the lines of one answer, in order, into deltas. */
export class LineReader implements FrameReader {
  finished = false
  done = false
  /** How many characters are held for the next request. */
  kept = 0
  readonly #slots = callSlots()
  #thinking = ''
  #calls = 0
  #isCut = false
  #usage: ModelUsage | undefined

  /** Reads one line and adds its deltas to `onto`. */
  take(line: Line | null, onto: Delta[]): void {
    const { thinking, content, tool_calls } = line?.message ?? {}
    if (typeof thinking === 'string' && thinking) {
      this.#thinking += thinking
      this.kept = this.#thinking.length
      onto.push({ type: 'reasoning', text: thinking })
    }
    if (typeof content === 'string' && content) onto.push({ type: 'text', text: content })
    if (Array.isArray(tool_calls))
      for (const call of tool_calls as readonly (Call | null)[]) this.#call(call, onto)
    if (line?.done !== true) return
    this.finished = this.done = true
    this.#isCut = line.done_reason === 'length'
    this.#usage = usageOf(line)
  }

  last(): readonly Delta[] {
    const data = this.#calls > 0 && this.#thinking ? { thinking: this.#thinking } : undefined
    return [
      ...(this.#isCut ? [{ type: 'ended', by: 'length' } as const] : []),
      ...(this.#usage ? [{ type: 'usage', ...this.#usage } as const] : []),
      ...(data ? [{ type: 'provider', data } as const] : []),
    ]
  }

  /** A call comes whole. Its place is counted here: servers send none, or 0 for each. */
  #call(call: Call | null, onto: Delta[]): void {
    const { name, arguments: args } = call?.function ?? {}
    const delta = this.#slots({ index: this.#calls, id: call?.id, name, args })
    if (!delta) return
    this.#calls++
    onto.push(delta)
  }
}

/** What an answer cost; undefined where the server did not count what it read, as when all of it was read before. */
function usageOf({ prompt_eval_count, eval_count }: Line): ModelUsage | undefined {
  const inputTokens = tokenCount(prompt_eval_count)
  if (inputTokens === undefined) return undefined
  return { inputTokens, outputTokens: tokenCount(eval_count) ?? 0 }
}
