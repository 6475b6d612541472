import { RuntimeError } from '../../errors.ts'

/** How many messages of one user, and of all, wait at once for what they attach by its address: each may hold 20 MiB. */
const mostAtOnce = { ofUser: 2, ofAll: 16 }

/** Counts the messages whose attachments are being brought. */
export class FetchPlaces {
  readonly #users = new Map<string, number>()
  #all = 0

  /** Lets a message in and returns how it leaves, or throws RATE_LIMITED. */
  enter(did: string): () => void {
    const own = this.#users.get(did) ?? 0
    if (own >= mostAtOnce.ofUser || this.#all >= mostAtOnce.ofAll)
      throw new RuntimeError('RATE_LIMITED', 'Too many attachments are being fetched.', {
        hint: 'Send the message again in a moment.',
        headers: { 'Retry-After': '5' },
      })
    this.#users.set(did, own + 1)
    this.#all++
    return () => {
      const left = (this.#users.get(did) ?? 1) - 1
      if (left > 0) this.#users.set(did, left)
      else this.#users.delete(did)
      this.#all--
    }
  }
}
