/** What a provider behind chat completions wants back with an assistant message. */
export interface Kept {
  /** The `extra_content` of calls, by the place of the call. */
  readonly extra?: Readonly<Record<number, unknown>>
  /** The `reasoning_content`. */
  readonly reasoning?: string
  /** The `reasoning_details`. */
  readonly details?: readonly unknown[]
}

/** Provider data as `Kept`, as far as it has that form. */
export function keptOf(data: unknown): Kept {
  return typeof data === 'object' && data !== null ? data : {}
}
