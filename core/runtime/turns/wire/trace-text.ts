/** How much of one text a trace shows, and of all of them together, in characters. */
const most = { ofOne: 16 * 1024, ofAll: 2 * 1024 * 1024 }
const hidden = '[redacted]'

/** The words of a trace: cut where they are long, hidden where a tool says so, left out where nobody may read them. */
export class TraceText {
  readonly #hasText: boolean
  readonly #redactOf: (tool: string) => readonly string[] | undefined
  #left = most.ofAll
  /** Whether texts were left out because all of them together are too long. */
  isCut = false

  constructor(hasText: boolean, redactOf: (tool: string) => readonly string[] | undefined) {
    this.#hasText = hasText
    this.#redactOf = redactOf
  }

  /** What somebody said. */
  words(text: string) {
    return this.#shown('text', text)
  }

  /** What a model thought. */
  reasoning(text: string) {
    return this.#shown('reasoning', text)
  }

  /** What a tool was given, and what it returned. */
  call(tool: string, args: unknown, output?: string) {
    if (!this.#hasText) return {}
    return {
      ...(args !== undefined && this.#arguments(redacted(args, this.#redactOf(tool)))),
      ...(output !== undefined && this.#shown('output', output)),
    }
  }

  /** Arguments stand as they are, unless they are long. */
  #arguments(args: unknown) {
    const text = JSON.stringify(args) ?? ''
    const taken = this.#take(text)
    return taken === text ? { args } : { args: taken, cut: true }
  }

  #shown(name: string, text: string) {
    if (!this.#hasText) return {}
    const taken = this.#take(text)
    return taken === text ? { [name]: text } : { [name]: taken, cut: true }
  }

  #take(text: string): string {
    const length = Math.min(text.length, most.ofOne, this.#left)
    this.isCut ||= this.#left < Math.min(text.length, most.ofOne)
    this.#left -= length
    return length < text.length ? text.slice(0, length).toWellFormed() : text
  }
}

/** Arguments without what the paths name. */
export function redacted(args: unknown, paths: readonly string[] = []): unknown {
  if (paths.length === 0) return args
  // Arguments that are no JSON are text, in which no path leads anywhere.
  if (typeof args !== 'object' || args === null) return hidden
  const copy: unknown = structuredClone(args)
  for (const path of paths) hide(copy, path.split('.'))
  return copy
}

function hide(value: unknown, [name, ...rest]: readonly string[]): void {
  if (typeof value !== 'object' || value === null || name === undefined) return
  for (const key of name === '*' ? Object.keys(value) : [name]) {
    if (!Object.hasOwn(value, key)) continue
    if (rest.length === 0) Reflect.set(value, key, hidden)
    else hide(Reflect.get(value, key), rest)
  }
}
