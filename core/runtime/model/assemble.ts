import { randomBytes } from 'node:crypto'
import type { Delta, ModelReply, ToolCall } from '../../plugin.ts'
import { nestsTooDeep } from '../base/safe-json.ts'

/** What a model call came to, and what the provider counted. */
interface AssembledReply extends ModelReply {
  readonly usage?: { readonly inputTokens: number; readonly outputTokens: number }
}

/** A call as far as it has come. */
interface CallSoFar {
  readonly id: string
  readonly name: string
  readonly args: string
}

/**
 * Gathers deltas into a reply. Calls get ids of our own, because a provider's may repeat within a
 * session. Arguments that are no JSON stay text, for the validation to tell the model so.
 */
export class Assembly {
  readonly #content = new Gathered()
  readonly #reasoning = new Gathered()
  readonly #calls = new Map<number, { id: string; name: string; args: Gathered }>()
  #usage: AssembledReply['usage']

  add(delta: Delta): void {
    switch (delta.type) {
      case 'text':
        return this.#content.add(delta.text)
      case 'reasoning':
        return this.#reasoning.add(delta.text)
      case 'usage':
        this.#usage = { inputTokens: delta.inputTokens, outputTokens: delta.outputTokens }
        return
      case 'tool-call': {
        let call = this.#calls.get(delta.index)
        if (!call) {
          call = { id: callId(), name: '', args: new Gathered() }
          this.#calls.set(delta.index, call)
        }
        if (delta.name) call.name = delta.name
        if (delta.args) call.args.add(delta.args)
      }
    }
  }

  /** The characters of text so far: what a client that comes back already has. */
  get length(): number {
    return this.#content.length
  }

  /** A call as far as it has come, by the index of its deltas. */
  call(index: number): CallSoFar | undefined {
    const call = this.#calls.get(index)
    return call && { id: call.id, name: call.name, args: call.args.text() }
  }

  /** The reply so far. Complete once the stream has ended; after an abort, what was said until then. */
  reply(): AssembledReply {
    const inOrder = [...this.#calls].sort(([a], [b]) => a - b)
    return {
      content: this.#content.text(),
      ...(this.#reasoning.length > 0 && { reasoning: this.#reasoning.text() }),
      toolCalls: inOrder.map(([, { id, name, args }]): ToolCall => {
        return { id, name, args: parsedArgs(args.text()) }
      }),
      ...(this.#usage && { usage: this.#usage }),
    }
  }
}

/** The whole reply of a stream. `onDelta` sees each delta as it arrives. */
export async function assemble(
  deltas: AsyncIterable<Delta>,
  onDelta?: (delta: Delta) => void,
): Promise<AssembledReply> {
  const gathered = new Assembly()
  for await (const delta of deltas) {
    gathered.add(delta)
    onDelta?.(delta)
  }
  return gathered.reply()
}

function parsedArgs(text: string): unknown {
  if (!text.trim()) return {} // a tool without parameters is often called with nothing at all
  // What nests too deep cannot be written out again: it stays text, which the validation refuses.
  if (nestsTooDeep(text)) return text
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** Pieces joined now and then: 5 MB in words of four letters are 70 MB as one rope of pieces. */
class Gathered {
  length = 0
  #done = ''
  #pieces: string[] = []

  add(text: string): void {
    this.length += text.length
    if (this.#pieces.push(text) >= 1024) this.text()
  }

  text(): string {
    this.#done += this.#pieces.join('')
    this.#pieces = []
    return this.#done
  }
}

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
let random = randomBytes(0)
let used = 0

/** Nine letters and digits, which is the strictest form that a provider asks for (Mistral). */
export function callId(): string {
  let id = ''
  while (id.length < 9) {
    // Drawn in bulk: asking the system for a few bytes costs as much as for a thousand.
    if (used === random.length) {
      random = randomBytes(1024)
      used = 0
    }
    const byte = random[used++]!
    // 248 is the largest multiple of 62 in a byte: no letter is likelier than another.
    if (byte < 248) id += letters[byte % 62]
  }
  return id
}
