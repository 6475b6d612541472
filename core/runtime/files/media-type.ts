import { isUtf8 } from 'node:buffer'
import { RuntimeError } from '../../errors.ts'

/** What the bytes of a file are. */
export interface FileKind {
  readonly type: 'image' | 'audio' | 'file'
  readonly mediaType: string
  /** The ending of a name that such a file usually has. */
  readonly ending: string
}

/** Every text is a file of this type, whatever language it is written in: nobody runs or draws it. */
export const textType = 'text/plain'

/** Containers that hold sound as well as films: the bytes do not say at once which it is, so the one who sends them does. */
const containers = new Set(['video/mp4', 'video/webm', 'video/ogg', 'application/ogg', 'audio/ogg'])

/**
 * What the bytes of a file are, by the bytes themselves. `claimed` is what their sender takes them for. A picture that is another
 * kind of picture is taken; what is no picture at all is refused with ATTACHMENT_TYPE, and so is what nobody knows.
 */
export async function fileKindOf(
  name: string,
  bytes: Uint8Array,
  claimed?: string,
): Promise<FileKind> {
  const { fileTypeFromBuffer } = await import('file-type') // at the first file: most servers get none for a while
  const found = await fileTypeFromBuffer(bytes).catch(() => undefined)
  const said = claimed?.split(';')[0]?.trim().toLowerCase()
  const isText = !found || isXml(found.mime)
  if (isText && (!isUtf8(bytes) || bytes.includes(0)))
    throw refusal(`"${name}" is of a type that is not known.`)
  const mediaType = isText ? textType : (heard(found.mime, said) ?? found.mime)
  if (said && contradicts(familyOf(said), familyOf(mediaType)))
    throw refusal(`"${name}" is said to be ${said}, but its bytes are ${mediaType}.`)
  return { type: partTypeOf(mediaType), mediaType, ending: isText ? 'txt' : found.ext }
}

/** What a file of a media type is in a message. */
export function partTypeOf(mediaType: string): FileKind['type'] {
  const family = familyOf(mediaType)
  return family === 'image' || family === 'audio' ? family : 'file'
}

const isXml = (mime: string) => /^(text\/|application\/xml$|image\/svg)/.test(mime)

/** The sound in a container, where its sender says that it holds sound. */
const heard = (mime: string, said: string | undefined) =>
  said?.startsWith('audio/') && containers.has(mime) ? mime.replace(/^[a-z]+/, 'audio') : undefined

type Family = 'image' | 'audio' | 'video' | 'text' | 'pdf' | 'other'

function familyOf(mediaType: string): Family {
  if (isXml(mediaType)) return 'text'
  if (mediaType === 'application/pdf') return 'pdf'
  const [kind] = mediaType.split('/')
  return kind === 'image' || kind === 'audio' || kind === 'video' ? kind : 'other'
}

/** `other` claims nothing: many senders call everything `application/octet-stream`. */
const contradicts = (said: Family, found: Family) => said !== 'other' && said !== found

const refusal = (message: string) =>
  new RuntimeError('ATTACHMENT_TYPE', message, {
    hint: 'Send it with the type that it has, or leave it out.',
  })
