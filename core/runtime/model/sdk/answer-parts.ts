import { fieldsIn, isRecord } from '../../base/fields.ts'
import { nestsTooDeep } from '../../base/safe-json.ts'
import type { Delta } from '../../../plugin.ts'
import { callName } from '../transport/call-slots.ts'
import { usageOf } from './usage.ts'

/** A part of an answer as it goes back with the next request. */
interface Kept {
  readonly type: string
  readonly pieces?: string[]
  readonly fields: Readonly<Record<string, unknown>>
  providerOptions?: unknown
}

/** Reads the parts of one answer. A foreign package makes the parts, so each field is checked where it is used. */
export class AnswerParts {
  /** Why the answer ended, in the word of the AI SDK; undefined before its end. */
  ended: string | undefined
  /** Whether anything but a greeting has come. */
  isBegun = false
  readonly #kept: Kept[] = []
  /** Texts and thoughts that are still written, by their ids. */
  readonly #open = new Map<unknown, Kept>()
  #calls = 0
  #usage: Delta | undefined

  /** The delta of one part; undefined for a part that nobody hears of. Throws what a part gives as an error. */
  take(given: unknown): Delta | undefined {
    const part = fieldsIn(given)
    const { type, id, providerMetadata: metadata } = part
    this.isBegun ||= type !== 'stream-start' && type !== 'response-metadata'
    switch (type) {
      case 'text-start':
      case 'text-delta':
      case 'text-end':
        return this.#write('text', type === 'text-start', id, part.delta, metadata)
      case 'reasoning-start':
      case 'reasoning-delta':
      case 'reasoning-end':
        return this.#write('reasoning', type === 'reasoning-start', id, part.delta, metadata)
      case 'tool-call':
        return this.#call(part)
      case 'tool-result': {
        const { toolCallId, toolName, result } = part
        const output = { type: part.isError ? 'error-json' : 'json', value: result }
        this.#keep({ type, fields: { toolCallId, toolName, output } }, metadata)
        return undefined
      }
      case 'custom':
        this.#keep({ type, fields: { kind: part.kind } }, metadata)
        return undefined
      case 'finish': {
        const { unified } = fieldsIn(part.finishReason)
        this.ended = String(unified ?? part.finishReason)
        const usage = usageOf(part.usage)
        this.#usage = usage && { type: 'usage', ...usage }
        return undefined
      }
      case 'error':
        throw part.error
    }
    return undefined
  }

  /** Whether the answer had nothing in it. */
  get isEmpty(): boolean {
    return this.#kept.length === 0
  }

  /** Whether the answer has words, and no call that is to be carried out. */
  get isWords(): boolean {
    const hasWords = this.#kept.some(({ type, pieces }) => type === 'text' && pieces?.length)
    return hasWords && this.#calls === 0
  }

  /** The deltas that end the answer. */
  last(): Delta[] {
    const by = this.ended === 'content-filter' ? 'content_filter' : this.ended
    const isEarly = by === 'length' || by === 'content_filter'
    const deltas: Delta[] = [
      ...(isEarly ? [{ type: 'ended', by } as const] : []),
      ...(this.#usage ? [this.#usage] : []),
    ]
    const parts = this.#kept.flatMap(({ type, pieces, fields, providerOptions }) => {
      const text = pieces?.join('')
      if (text === '' && providerOptions === undefined) return []
      return [
        {
          type,
          ...fields,
          ...(text !== undefined && { text }),
          ...(providerOptions !== undefined && { providerOptions }),
        },
      ]
    })
    // Texts and calls without data of the package are said by the message itself.
    const isPlain = this.#kept.every(
      ({ type, providerOptions }) =>
        providerOptions === undefined && (type === 'text' || type === 'tool-call'),
    )
    return isPlain ? deltas : [...deltas, { type: 'provider', data: { parts } }]
  }

  #write(
    type: 'text' | 'reasoning',
    starts: boolean,
    id: unknown,
    delta: unknown,
    metadata: unknown,
  ): Delta | undefined {
    const key = `${type} ${String(id)}`
    let part = starts ? undefined : this.#open.get(key)
    if (!part) {
      part = this.#keep({ type, pieces: [], fields: {} }, undefined)
      this.#open.set(key, part)
    }
    if (isRecord(metadata)) part.providerOptions = metadata
    if (typeof delta !== 'string' || delta === '') return undefined
    part.pieces?.push(delta)
    return { type, text: delta }
  }

  #call(part: Readonly<Record<string, unknown>>): Delta | undefined {
    const { toolCallId, providerMetadata, providerExecuted } = part
    const args = typeof part.input === 'string' ? part.input : JSON.stringify(part.input ?? {})
    const toolName = typeof part.toolName === 'string' && part.toolName ? part.toolName : 'unnamed'
    const fields = {
      toolCallId: String(toolCallId),
      toolName: callName(toolName),
      input: inputOf(args),
      ...(providerExecuted === true && { providerExecuted }),
    }
    this.#keep({ type: 'tool-call', fields }, providerMetadata)
    // What the provider carried out itself is no call of ours.
    if (providerExecuted === true) return undefined
    return { type: 'tool-call', index: this.#calls++, name: toolName, args }
  }

  #keep(part: Kept, metadata: unknown): Kept {
    if (isRecord(metadata)) part.providerOptions = metadata
    this.#kept.push(part)
    return part
  }
}

/** Arguments of a call as the AI SDK takes them back: an object. */
function inputOf(args: string): object {
  if (nestsTooDeep(args)) return {}
  try {
    return fieldsIn(JSON.parse(args))
  } catch {
    return {}
  }
}
