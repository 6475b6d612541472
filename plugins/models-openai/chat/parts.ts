import type { Message, MessagePart, ModelRequest } from '#core/models'

/** The JSON of a conversation with pictures, sounds and files, which is written anew for each request. */
export async function messagesWithParts(
  request: ModelRequest,
  write: (message: Message) => object,
): Promise<string> {
  const said: object[] = []
  /** What follows the results of a step, in one message of the user: chat completions take no pictures in results. */
  let after: object[] = []
  const follow = () => {
    if (after.length > 0) said.push({ role: 'user', content: after })
    after = []
  }
  for (const message of request.messages) {
    if (message.role !== 'tool') follow()
    const parts = message.role === 'user' || message.role === 'tool' ? message.parts : undefined
    if (!parts?.length) {
      said.push(write(message))
      continue
    }
    const content = await Promise.all(parts.map((part) => partOf(part, request)))
    if (message.role === 'tool') {
      said.push(write(message))
      const text = `What the call ${message.toolCallId} of "${message.name}" returned beside its text:`
      after.push({ type: 'text', text }, ...content)
    } else {
      const text = message.content ? [{ type: 'text', text: message.content }] : []
      said.push({ role: 'user', content: [...text, ...content] })
    }
  }
  follow()
  return said.map((message) => JSON.stringify(message)).join()
}

async function partOf(part: MessagePart, { file }: ModelRequest): Promise<object> {
  const { type, mediaType, name } = part
  if (!file) return { type: 'text', text: `[${type} "${name ?? mediaType}" is not there]` }
  const data = Buffer.from(await file(part.file)).toString('base64')
  switch (type) {
    case 'image':
      return { type: 'image_url', image_url: { url: `data:${mediaType};base64,${data}` } }
    case 'audio': {
      const format = mediaType.includes('mpeg') ? 'mp3' : 'wav'
      return { type: 'input_audio', input_audio: { data, format } }
    }
    case 'file':
      return {
        type: 'file',
        file: { filename: name ?? 'file', file_data: `data:${mediaType};base64,${data}` },
      }
  }
}
