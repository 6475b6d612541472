import { RuntimeError } from '../../errors.ts'
import type { MessagePart, Model } from '../../plugin.ts'
import { Chain } from './chain.ts'
import { knownModel } from './opened-later.ts'

/** Every model reads text, whatever else it reads: the runtime writes it into the message. */
export const isTextPart = ({ mediaType }: Pick<MessagePart, 'mediaType'>): boolean =>
  mediaType === 'text/plain'

/** Whether a model reads a part as it is. */
export function readsPart(
  { reads }: Pick<Model, 'reads'>,
  { type, mediaType }: Pick<MessagePart, 'type' | 'mediaType'>,
): boolean {
  const patterns: readonly string[] = reads?.[type] ?? []
  const [family] = mediaType.split('/')
  return patterns.some(
    (pattern) => pattern === mediaType || pattern === `${family}/*` || pattern === '*/*',
  )
}

/** What people call the parts that a model does not read. */
export function kindName({ type, mediaType }: Pick<MessagePart, 'type' | 'mediaType'>): string {
  if (mediaType === 'application/pdf') return 'PDF files'
  return type === 'image' ? 'images' : type === 'audio' ? 'audio' : `files of type ${mediaType}`
}

/** Resolves once a model can say what it reads. A model that cannot be opened is taken to read text alone. */
export async function knowWhatItReads(model: Model): Promise<void> {
  const [first = model] = model instanceof Chain ? model.members : [model]
  await knownModel(first)
}

/** Throws MODEL_CANNOT_READ where a model cannot read one of the parts, and names the models that read all of them. */
export async function demandReadable(
  model: Model,
  parts: readonly MessagePart[],
  all: readonly Model[],
): Promise<void> {
  const isReadable = (one: Model) => (part: MessagePart) => isTextPart(part) || readsPart(one, part)
  if (parts.every(isTextPart)) return
  await knowWhatItReads(model)
  const refused = parts.find((part) => !isReadable(model)(part))
  if (!refused) return
  await Promise.all(all.map(knowWhatItReads))
  const models = all.filter((one) => parts.every(isReadable(one))).map(({ id }) => id)
  const named = refused.name === undefined ? '' : ` (${refused.name})`
  throw new RuntimeError(
    'MODEL_CANNOT_READ',
    `"${model.id}" cannot read ${kindName(refused)}${named}.`,
    {
      hint:
        models.length > 0
          ? `Choose one that can: ${models.join(', ')}.`
          : 'None of the models here can: send it as text.',
      details: { models },
    },
  )
}
