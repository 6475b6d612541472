import type { ProviderMedia } from './answers.ts'
import { fieldsIn, isRecord, textOf } from './read.ts'

/** How deep a request is searched for pictures, sounds and files. */
const deepest = 12

const base64Form = /^[A-Za-z0-9+/]*={0,2}$/

/** The pictures, sounds and files that lie in a request of any wire, in their order. */
export function mediaIn(value: unknown, depth = 0): readonly ProviderMedia[] {
  if (depth > deepest) return []
  if (Array.isArray(value)) return value.flatMap((item) => mediaIn(item, depth + 1))
  if (!isRecord(value)) return []
  const own = mediumOf(value)
  if (own) return own
  return Object.values(value).flatMap((item) => mediaIn(item, depth + 1))
}

/** What an object holds that is a picture, a sound or a file in one of the forms of the wires. */
function mediumOf(value: Readonly<Record<string, unknown>>): ProviderMedia[] | undefined {
  if (value.type === 'base64') return [decoded(textOf(value.media_type), textOf(value.data))]
  const inline = fieldsIn(value.inlineData ?? value.inline_data)
  if (inline.data !== undefined)
    return [decoded(textOf(inline.mimeType ?? inline.mime_type), textOf(inline.data))]
  const audio = fieldsIn(value.input_audio)
  if (audio.data !== undefined)
    return [decoded(`audio/${textOf(audio.format)}`, textOf(audio.data))]
  const url = textOf(
    fieldsIn(value.image_url).url ??
      value.image_url ??
      value.file_data ??
      fieldsIn(value.file).file_data,
  )
  const [, mediaType, data] = /^data:([^;,]*);base64,(.*)$/s.exec(url) ?? []
  if (mediaType !== undefined) return [decoded(mediaType, data ?? '')]
  if (!Array.isArray(value.images)) return undefined
  return value.images.map((image) => decoded('', textOf(image)))
}

function decoded(mediaType: string, data: string): ProviderMedia {
  const isBase64 = base64Form.test(data) && data.length % 4 === 0
  const bytes = isBase64 ? Buffer.from(data, 'base64') : new Uint8Array()
  return { mediaType: mediaType || typeOf(bytes) || 'application/octet-stream', bytes }
}

const beginnings: readonly (readonly [type: string, bytes: readonly number[]])[] = [
  ['image/png', [0x89, 0x50, 0x4e, 0x47]],
  ['image/jpeg', [0xff, 0xd8, 0xff]],
  ['image/gif', [0x47, 0x49, 0x46, 0x38]],
  ['application/pdf', [0x25, 0x50, 0x44, 0x46]],
]

/** What kind of file the bytes begin like. */
function typeOf(bytes: Uint8Array): string | undefined {
  return beginnings.find(([, begins]) => begins.every((byte, i) => bytes[i] === byte))?.[0]
}

/** What a server says of a picture that it cannot read, or that is another one than the request says. */
export function mediaFault(media: readonly ProviderMedia[]): string | undefined {
  for (const { mediaType, bytes } of media) {
    if (bytes.length === 0) return 'Could not process image'
    if (!mediaType.startsWith('image/')) continue
    const looks = typeOf(bytes)
    if (looks && looks !== mediaType)
      return (
        `The image was specified using the ${mediaType} media type, ` +
        `but the image appears to be a ${looks} image`
      )
  }
  return undefined
}
