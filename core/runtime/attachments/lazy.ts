import type { User } from '../../plugin.ts'
import type { Attaching, Attachments, AttachmentsOptions } from './attachments.ts'

/** Attachments whose code is loaded with the first message that has one. */
export class LazyAttachments implements Pick<Attachments, keyof Attachments> {
  readonly #options: AttachmentsOptions
  #making: Promise<Attachments> | undefined

  constructor(options: AttachmentsOptions) {
    this.#options = options
  }

  /** The request with its files beside its words, as `Attachments` makes it. */
  async attach<R extends Attaching>(user: User, requestId: string, request: R): Promise<R> {
    if (!request.attachments?.length) return request
    return (await this.#load()).attach(user, requestId, request)
  }

  /** The attachments, loaded once. */
  #load(): Promise<Attachments> {
    this.#making ??= import('./attachments.ts').then(
      ({ Attachments }) => new Attachments(this.#options),
    )
    return this.#making
  }
}
