/** A line of what a client believes was said before. */
export interface SaidBefore {
  /** Who said it. */
  readonly role: 'user' | 'assistant'
  /** The words. */
  readonly content: string
}
