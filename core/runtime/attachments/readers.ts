import { RuntimeError } from '../../errors.ts'
import type { AttachmentContext, AttachmentReader, FetchedAttachment, User } from '../../plugin.ts'
import { isActive, type PluginRecord } from '../base/plugin-record.ts'
import { refusalOf } from '../boot/refusal.ts'
import type { DescribedAttachment } from './described.ts'

/** A plugin that brings what is attached by one scheme. */
export interface Reader {
  readonly record: PluginRecord
  readonly read: AttachmentReader<AttachmentContext>
}

/** The plugin of a scheme; undefined where none brings what such addresses stand for. */
export function readerOf(records: readonly PluginRecord[], scheme: string): Reader | undefined {
  for (const record of records) {
    if (!isActive(record)) continue
    for (const [own, read] of Object.entries(record.definition.attachments ?? {}))
      if (own === scheme) return { record, read }
  }
  return undefined
}

/** What a reader needs to know of a message. */
export interface BringTerms {
  readonly user: User
  readonly requestId: string
  readonly signal: AbortSignal
}

/** Has a plugin bring an attachment; undefined where the plugin has no contents to bring. */
export async function bringByPlugin(
  { record, read }: Reader,
  uri: string,
  { fields }: DescribedAttachment,
  { user, requestId, signal }: BringTerms,
) {
  const refusal = refusalOf(record)
  if (refusal) throw refusal
  const { base } = record
  if (base === undefined) throw new RuntimeError('UNAVAILABLE', 'The plugin is not set up.')
  const asked = record.modelsWithin?.({ signal: () => signal, did: user.did })
  const own = { user, requestId, signal, attachment: fields, audit: () => undefined }
  const brought = await read(uri, { ...base, ...asked, ...own })
  if (brought === undefined) return undefined
  const { bytes, mediaType, name }: FetchedAttachment =
    brought instanceof Uint8Array ? { bytes: brought } : brought
  if (bytes instanceof Uint8Array) return { bytes, mediaType, name }
  throw new TypeError(`${record.name} brought no bytes for an attachment.`)
}
