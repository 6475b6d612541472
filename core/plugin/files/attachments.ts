import type { Base, User } from '../context.ts'
import type { MaybePromise } from '../schema.ts'
import type { UnknownInputs } from '../jobs.ts'

/** What the functions of the section `attachments` reach. `signal` fires when the message has waited long enough. */
export interface AttachmentContext<
  Env = unknown,
  Self = unknown,
  Peers = unknown,
  Inputs = UnknownInputs,
> extends Base<Env, Self, Peers, Inputs> {
  /** Whose message it is. */
  readonly user: User
  /** The attachment as the client described it. */
  readonly attachment: Readonly<Record<string, unknown>>
}

/** The contents of an attachment, where a plugin knows more of it than its bytes. */
export interface FetchedAttachment {
  readonly bytes: Uint8Array
  readonly mediaType?: string
  readonly name?: string
}

/** Brings the contents behind an address. Undefined: there are none to bring, and the model reads the attachment's name. */
export type AttachmentReader<Context> = (
  uri: string,
  ctx: Context,
) => MaybePromise<Uint8Array | FetchedAttachment | undefined>

/**
 * The section `attachments`: who brings what is attached by an address that the runtime does not fetch itself, by the
 * scheme of the address with its colon, such as `mxc:`. `event:` stands for what a client names by an `eventId` alone.
 */
export type AttachmentSection<Context> = Readonly<Record<`${string}:`, AttachmentReader<Context>>>

/** The section with its types erased, as the kernel calls it. */
export type AnyAttachmentSection = AttachmentSection<AttachmentContext>
