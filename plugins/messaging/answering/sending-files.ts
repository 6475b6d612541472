import { z } from 'zod'
import { RuntimeError, type TurnContext } from '#core'
import type { Messaging } from '../messaging.ts'
import { requestIdOf } from './message.ts'
import { cleaned, own } from './words.ts'

const longestName = 120
const input = z.strictObject({
  name: z.string().min(1).max(longestName),
  content: z.string().min(1),
  type: z
    .string()
    .regex(/^[a-z]+\/[a-z0-9.+-]{1,80}$/)
    .default('text/plain'),
})
const parameters = {
  type: 'object',
  required: ['name', 'content'],
  additionalProperties: false,
  properties: {
    name: { type: 'string', maxLength: longestName, description: 'The name, such as `plan.md`' },
    content: { type: 'string', description: 'The whole text of the file' },
    type: { type: 'string', description: 'The media type; text/plain where it is left out' },
  },
}

/** What a turn from a room knows of the room, as messaging itself has told it. */
const place = z.object({ roomId: z.string(), thread: z.string().optional() })

type Turn = Pick<TurnContext, 'metadata' | 'origin' | 'callKey'> & { readonly self: Messaging }

/** The tools of a turn that came from a room; none elsewhere. */
export function roomTools({ origin }: Pick<Turn, 'origin'>) {
  if (origin !== 'messaging') return undefined
  return {
    send_file: {
      description:
        'Sends a text file into the room of this conversation, for the person to open or keep.',
      parameters,
      effect: 'write' as const,
      // The result is two numbers of ours, and nobody's words.
      foreign: false,
      run: (args: unknown, ctx: Turn) => sendFile(args, ctx),
    },
  }
}

async function sendFile(args: unknown, { self, metadata, callKey }: Turn) {
  const read = input.safeParse(args)
  if (!read.success)
    throw new RuntimeError('INPUT_INVALID', 'A file needs a name and a content, both as text.', {
      hint: 'Leave `type` out for plain text.',
    })
  const { roomId, thread } = place.parse(metadata)
  const { line, rooms } = self.demandDesk()
  const most = self.env.MESSAGING_MAX_FILE_BYTES
  const bytes = Buffer.from(read.data.content.toWellFormed())
  if (bytes.length > most)
    throw new RuntimeError('PAYLOAD_TOO_LARGE', `A file has ${most} bytes at most.`, {
      hint: 'Send it in several files.',
    })
  const name = cleaned(read.data.name).replace(/[\\/\n\t]/g, '-')
  const { isEncrypted } = await rooms.view(roomId)
  const content = {
    msgtype: 'm.file',
    body: name,
    filename: name,
    info: { mimetype: read.data.type, size: bytes.length },
    ...own,
    ...(thread !== undefined && {
      'm.relates_to': { rel_type: 'm.thread', event_id: thread, is_falling_back: true },
    }),
  }
  const addressed = isEncrypted
    ? await sealed()
    : { url: await line.api.upload(bytes, read.data.type) }
  const event = { ...content, ...addressed }
  await rooms.send(roomId, 'm.room.message', event, requestIdOf(`file ${callKey}`))
  return { sent: name, bytes: bytes.length }

  async function sealed() {
    const { bytes: hidden, info } = line.device.sealFile(bytes)
    const url = await line.api.upload(hidden, 'application/octet-stream')
    return { file: { ...info, url } }
  }
}
