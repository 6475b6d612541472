import type { Message } from '../../../plugin.ts'
import { MessageSum } from '../../model/usage/message-sum.ts'

/** Where a value was cut, and by which handle `read_result` reads the rest. */
export interface More {
  /** Absent when the result was too large to be kept. */
  readonly handle?: string
  /** Where in the result the cut part stands, as a JSON Pointer; absent for the whole result. */
  readonly path?: string
  /** How many items of an array, keys of an object or characters of a text are shown, and how many there are. */
  readonly shown: number
  readonly of: number
}

/** The least that a part of an object is cut to. */
const leastBytes = 320
/** A path that is longer does not stand in `$more`, for it would take the place of what it names. */
const longestPath = 200

/** The JSON of a value that has only what JSON has, cut to so many bytes: what is left out is named where it stood. */
export function cutToFit(value: unknown, maxBytes: number, handle?: string): string {
  const json = JSON.stringify(new Cut(handle).fit(value, maxBytes, ''))
  if (Buffer.byteLength(json) <= maxBytes) return json
  return JSON.stringify({ $more: { handle, shown: 0, of: 1 } })
}

/** The bytes of a value as JSON, counted until they are more than `limit`. */
export function bytesOf(value: unknown, limit: number): number {
  if (typeof value === 'string')
    return value.length > limit ? value.length : Buffer.byteLength(JSON.stringify(value))
  if (typeof value !== 'object' || value === null) return String(value).length
  let bytes = 2
  if (Array.isArray(value))
    for (const item of value) {
      bytes += bytesOf(item, limit - bytes) + 1
      if (bytes > limit) return bytes
    }
  else
    for (const [key, inner] of Object.entries(value)) {
      bytes += bytesOf(key, limit) + bytesOf(inner, limit - bytes) + 2
      if (bytes > limit) return bytes
    }
  return bytes
}

/** Cuts one result. */
export class Cut {
  readonly #handle: string | undefined

  constructor(handle?: string) {
    this.#handle = handle
  }

  /** The value where it fits; otherwise an array or an object without its last items, or the beginning of a text. */
  fit(value: unknown, budget: number, path: string): unknown {
    if (bytesOf(value, budget) <= budget) return value
    if (typeof value === 'string') return this.#text(value, budget, path)
    if (Array.isArray(value)) return this.#array(value, budget, path)
    return this.#object(value as Readonly<Record<string, unknown>>, budget, path)
  }

  #more(shown: number, of: number, path: string): { readonly $more: More } {
    const isNamed = path !== '' && path.length <= longestPath
    return {
      $more: {
        ...(this.#handle && { handle: this.#handle }),
        ...(isNamed && { path }),
        shown,
        of,
      },
    }
  }

  #text(text: string, budget: number, path: string): unknown {
    const left =
      budget - bytesOf({ text: '', ...this.#more(text.length, text.length, path) }, budget)
    const shown = headOf(text, left)
    return { text: shown, ...this.#more(shown.length, text.length, path) }
  }

  #array(items: readonly unknown[], budget: number, path: string): unknown {
    let left = budget - bytesOf([this.#more(items.length, items.length, path)], budget)
    const shown: unknown[] = []
    for (const item of items) {
      const bytes = bytesOf(item, left) + 1
      if (bytes > left) break
      shown.push(item)
      left -= bytes
    }
    // The first item alone is too large: a part of the item says more than nothing.
    if (shown.length === 0 && left > leastBytes)
      shown.push(this.fit(items[0], left - 1, `${path}/0`))
    return shown.length === items.length
      ? shown
      : [...shown, this.#more(shown.length, items.length, path)]
  }

  #object(value: Readonly<Record<string, unknown>>, budget: number, path: string): unknown {
    const entries = Object.entries(value)
    let left = budget - bytesOf(this.#more(entries.length, entries.length, path), budget)
    const taken: { key: string; inner: unknown; bytes: number }[] = []
    let least = 0
    for (const [key, inner] of entries) {
      const name = bytesOf(key, left) + 2
      const bytes = bytesOf(inner, left)
      least += name + Math.min(bytes, leastBytes)
      if (least > left) break
      taken.push({ key, inner, bytes: bytes + name })
    }
    // What is small is shown whole; the large values share what is left in equal parts.
    const shares = new Map<string, number>()
    for (const [nth, { key, bytes }] of taken.toSorted((a, b) => a.bytes - b.bytes).entries()) {
      const share = Math.min(bytes, Math.floor(left / (taken.length - nth)))
      shares.set(key, share)
      left -= share
    }
    const shown = taken.map(({ key, inner }) => {
      const room = (shares.get(key) ?? 0) - bytesOf(key, budget) - 2
      return [key, this.fit(inner, room, `${path}/${escaped(key)}`)] as const
    })
    const isWhole = taken.length === entries.length
    return {
      ...Object.fromEntries(shown),
      ...(!isWhole && this.#more(taken.length, entries.length, path)),
    }
  }
}

const escaped = (key: string) => key.replaceAll('~', '~0').replaceAll('/', '~1')

/** The longest beginning of a text that is at most so many bytes as JSON, and ends between two characters. */
export function headOf(text: string, bytes: number): string {
  let [least, most] = [0, Math.max(0, Math.min(text.length, bytes))]
  while (least < most) {
    const middle = Math.ceil((least + most) / 2)
    if (Buffer.byteLength(JSON.stringify(text.slice(0, middle))) - 2 <= bytes) least = middle
    else most = middle - 1
  }
  const code = text.charCodeAt(least - 1)
  return text.slice(0, code >= 0xd800 && code <= 0xdbff ? least - 1 : least)
}

/** Whether a message is a result that was cut: the model may want to read on in it. */
export const wasCut = (message: Message): boolean =>
  message.role === 'tool' && message.content.includes('"$more":{"handle"')

/** How many results of a conversation were cut: every turn of a session asks that of all of them. */
export const cutResults = new MessageSum((message) => (wasCut(message) ? 1 : 0))
