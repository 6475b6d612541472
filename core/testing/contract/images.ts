import type { Message, MessagePart, Model } from '../../plugin.ts'
import { tools, user, type ContractCheck, type Stage } from './check.ts'

/** A PNG of one pixel. */
const pixel = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)
const part: MessagePart = {
  type: 'image',
  mediaType: 'image/png',
  name: 'pixel.png',
  bytes: pixel.length,
  file: 'contract-pixel',
}

/** A picture of the user reaches the provider whole, and so does one that a tool gave. */
export const images: ContractCheck = {
  name: 'images',
  calls: 2,
  async run(stage) {
    const ofUser: Message = { role: 'user', id: 'u', content: 'What is this?', parts: [part] }
    const first = await stage.open([{ describes: true }], 'of the user')
    if (!readsPng(first)) stage.leave('the model reads no images.')
    await look(stage, first, [ofUser], 'of the user')
    const call = { id: 'Ab3dEf7hJ', name: 'contract_clock', args: {} }
    await look(
      stage,
      await stage.open([{ describes: true }], 'of a tool'),
      [
        user('What does the clock look like?'),
        { role: 'assistant', id: 'a', content: '', toolCalls: [call], model: 'other/one' },
        {
          role: 'tool',
          id: 't',
          toolCallId: call.id,
          name: call.name,
          content: 'A picture of the clock.',
          parts: [part],
        },
      ],
      'of a tool',
    )
  },
}

async function look(
  stage: Stage,
  model: Model,
  messages: readonly Message[],
  whose: string,
): Promise<void> {
  let asked = 0
  const file = (id: string): Promise<Uint8Array> => {
    asked++
    return id === part.file
      ? Promise.resolve(new Uint8Array(pixel))
      : Promise.reject(new Error(`There is no file "${id}".`))
  }
  const { error, reply } = await stage.ask(model, messages, { tools, file })
  if (error !== undefined)
    return stage.find(`The model fails to read an image ${whose} (${stage.told(error)}).`)
  if (asked === 0) stage.find(`The model never asks for the bytes of an image ${whose}.`)
  else if (!stage.isReal && !reply.content.includes(`image/png ${pixel.length}`))
    stage.find(
      `An image ${whose}, image/png of ${pixel.length} bytes, reaches the provider as "${reply.content}".`,
    )
}

/** Whether the model says that it reads PNG. */
const readsPng = ({ reads }: Model): boolean =>
  reads?.image?.some((type) => ['image/png', 'image/*', '*/*'].includes(type)) ?? false
