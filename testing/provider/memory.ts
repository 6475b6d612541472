/** What the provider gave with a call and wants back beside it. */
export interface GivenWithCall {
  /** The answer that the call stood in. */
  readonly answer: string
  readonly name: string
  /** The ids or texts that have to come back, in order; empty where the answer was not signed. */
  readonly wanted: readonly string[]
}

/** How many calls the memory keeps; the oldest go first. */
const mostCalls = 10_000

/** The calls that the provider made, by their ids. */
export class CallMemory {
  readonly #calls = new Map<string, GivenWithCall | 'unclear'>()

  /** Remembers a call. An id that comes twice says nothing any more. */
  add(id: string, given: GivenWithCall): void {
    this.#calls.set(id, this.#calls.has(id) ? 'unclear' : given)
    for (const oldest of this.#calls.keys()) {
      if (this.#calls.size <= mostCalls) break
      this.#calls.delete(oldest)
    }
  }

  /** What was given with a call; undefined for a call of another provider, and for an id that came twice. */
  get(id: string): GivenWithCall | undefined {
    const given = this.#calls.get(id)
    return given === 'unclear' ? undefined : given
  }
}
