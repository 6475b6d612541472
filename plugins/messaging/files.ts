import { RuntimeError } from '#core'
import { openFile } from './device/device.ts'
import type { Messaging } from './messaging.ts'

/** What is known of a file that a person sent. */
interface Wanted {
  readonly did: string
  readonly attachment: Readonly<Record<string, unknown>>
  readonly signal: AbortSignal
}

/** The bytes of a file in a room. A ticket says that this person sent it there: nobody else can have it fetched. */
export async function fileOf(
  messaging: Messaging,
  uri: string,
  { did, attachment, signal }: Wanted,
): Promise<Uint8Array | undefined> {
  if (attachment.ticket !== messaging.seal.mac('file', `${did} ${uri}`)) return undefined
  const api = await messaging.media()
  const most = messaging.env.MESSAGING_MAX_FILE_BYTES
  const bytes = await api.download(uri, most, signal)
  if (!bytes)
    throw new RuntimeError('PAYLOAD_TOO_LARGE', `A file has ${most} bytes at most.`, {
      hint: 'Send a smaller file.',
    })
  if (attachment.sealed === undefined) return bytes
  try {
    return await openFile(bytes, attachment.sealed)
  } catch {
    // The reason would name parts of the key.
    throw new RuntimeError('INVALID_INPUT', 'The file was changed on its way.', {
      hint: 'Send the file again.',
    })
  }
}
