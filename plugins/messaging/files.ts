import { RuntimeError } from '#core'
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
  const { line } = messaging.demandDesk()
  const most = messaging.env.MESSAGING_MAX_FILE_BYTES
  const bytes = await line.api.download(uri, most, signal)
  if (!bytes)
    throw new RuntimeError('PAYLOAD_TOO_LARGE', `A file has ${most} bytes at most.`, {
      hint: 'Send a smaller file.',
    })
  if (attachment.sealed === undefined) return bytes
  try {
    return line.device.openFile(bytes, attachment.sealed)
  } catch {
    // The reason would name parts of the key.
    throw new RuntimeError('INVALID_INPUT', 'The file was changed on its way.', {
      hint: 'Send the file again.',
    })
  }
}
