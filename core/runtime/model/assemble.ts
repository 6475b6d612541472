import { randomBytes } from 'node:crypto'
import { RuntimeError } from '../../errors.ts'
import type { Delta, EarlyEnd, ModelReply, ModelUsage, ToolCall } from '../../plugin.ts'
import { nestsTooDeep } from '../base/safe-json.ts'
import { maxProviderData } from './transport/wire.ts'
import { checkedUsage } from './usage/counts.ts'

/** How many tools one answer may call: as many as STEP_MAX_CALLS may let a turn carry out at once. */
const mostCalls = 1000

/** A tool call of which some parts may still come. */
interface CallSoFar {
  readonly id: string
  readonly name: string
  readonly args: string
}

/**
 * Gathers deltas into a reply. The assembly makes the ids of the calls, because a provider's ids may repeat within a session.
 * Arguments that are no JSON stay text, so that the validation can tell the model.
 */
export class Assembly {
  readonly #content = new Gathered()
  readonly #reasoning = new Gathered()
  readonly #calls = new Map<number, { id: string; name: string; args: Gathered }>()
  #usage: ModelUsage | undefined
  #provider: { readonly data: unknown } | undefined
  #ended: EarlyEnd | undefined

  /** Takes the next delta. */
  add(delta: Delta): void {
    switch (delta.type) {
      case 'text':
        return this.#content.add(delta.text)
      case 'reasoning':
        return this.#reasoning.add(delta.text)
      case 'usage': {
        const { type: _, ...usage } = delta
        this.#usage = checkedUsage(usage, this.#usage)
        return
      }
      case 'provider':
        this.#provider = { data: ownCopy(delta.data) }
        return
      case 'ended':
        this.#ended = delta.by
        return
      case 'tool-call': {
        let call = this.#calls.get(delta.index)
        if (!call) {
          if (this.#calls.size >= mostCalls)
            throw new RuntimeError(
              'MODEL_ANSWER_TOO_LONG',
              `The model calls more than ${mostCalls} tools in one answer.`,
            )
          call = { id: callId(), name: '', args: new Gathered() }
          this.#calls.set(delta.index, call)
        }
        if (delta.name) call.name = delta.name
        if (delta.args) call.args.add(delta.args)
      }
    }
  }

  /** How many characters of text have come so far. */
  get length(): number {
    return this.#content.length
  }

  /** The call whose deltas have this index, with the arguments so far. */
  call(index: number): CallSoFar | undefined {
    const call = this.#calls.get(index)
    return call && { id: call.id, name: call.name, args: call.args.text() }
  }

  /** The reply so far. It is complete once the stream has ended; after an abort it has what the model said until then. */
  reply(): ModelReply {
    const inOrder = [...this.#calls].sort(([a], [b]) => a - b)
    return {
      content: this.#content.text(),
      ...(this.#reasoning.length > 0 && { reasoning: this.#reasoning.text() }),
      toolCalls: inOrder.map(([, { id, name, args }]): ToolCall => {
        return { id, name, args: parsedArgs(args.text()) }
      }),
      ...(this.#usage && { usage: this.#usage }),
      ...(this.#provider && { provider: this.#provider.data }),
      ...(this.#ended && { ended: this.#ended }),
    }
  }
}

/** Reads a stream to its end and gives the whole reply. `onDelta` sees each delta as it arrives. */
export async function assemble(
  deltas: AsyncIterable<Delta>,
  onDelta?: (delta: Delta) => void,
): Promise<ModelReply> {
  const gathered = new Assembly()
  for await (const delta of deltas) {
    gathered.add(delta)
    onDelta?.(delta)
  }
  return gathered.reply()
}

/** What a provider wants back, as the journal will give it: JSON, and no larger than it may be. */
function ownCopy(data: unknown): unknown {
  const json = JSON.stringify(data) ?? 'null'
  if (Buffer.byteLength(json) > maxProviderData)
    throw new RuntimeError(
      'MODEL_ANSWER_TOO_LONG',
      `The model's provider asks for more than ${maxProviderData} bytes of its own data back.`,
    )
  return JSON.parse(json)
}

function parsedArgs(text: string): unknown {
  if (!text.trim()) return {} // models often call a tool without parameters with an empty text
  // JSON.stringify could not write out arguments that nest too deep. They stay text, which the validation refuses.
  if (nestsTooDeep(text)) return text
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/**
 * Text that arrives in pieces, joined after every 1,024 pieces. V8 keeps `a += b` as a tree of its pieces: 5 MB in words of
 * four letters would take 70 MB.
 */
class Gathered {
  length = 0
  #done = ''
  #pieces: string[] = []

  add(text: string): void {
    this.length += text.length
    if (this.#pieces.push(text) >= 1024) this.text()
  }

  /** All text so far. */
  text(): string {
    this.#done += this.#pieces.join('')
    this.#pieces = []
    return this.#done
  }
}

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
let random = randomBytes(0)
let used = 0

/** Makes an id of nine letters and digits, the strictest form that a provider asks for (Mistral). */
export function callId(): string {
  let id = ''
  while (id.length < 9) {
    // A thousand random bytes at once cost as much as a few.
    if (used === random.length) {
      random = randomBytes(1024)
      used = 0
    }
    const byte = random[used++]!
    // 248 is the largest multiple of 62 in a byte. Dropping the bytes above makes every letter equally likely.
    if (byte < 248) id += letters[byte % 62]
  }
  return id
}
