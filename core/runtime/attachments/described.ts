import { fieldsIn } from '../base/fields.ts'
import { fileNameOf } from '../files/limits.ts'

/** Where the contents of an attachment are. */
export type Source =
  | { readonly kind: 'file'; readonly id: string }
  | { readonly kind: 'bytes'; readonly base64: string; readonly mediaType?: string }
  | { readonly kind: 'web'; readonly url: string }
  | { readonly kind: 'plugin'; readonly scheme: string; readonly uri: string }

/** An attachment as its client described it, read. */
export interface DescribedAttachment {
  readonly fields: Readonly<Record<string, unknown>>
  /** Undefined where the client gave no name. */
  readonly name: string | undefined
  /** What the client takes the contents for. */
  readonly mediaType: string | undefined
  /** Undefined where nothing says where the contents are. */
  readonly source: Source | undefined
}

const names = ['filename', 'name', 'fileName', 'title']
const types = ['mimetype', 'mediaType', 'mimeType', 'contentType', 'type']
const addresses = ['url', 'mxcUri', 'uri', 'href']

/** Reads an attachment: clients differ in the names of its fields. */
export function readAttachment(attachment: unknown): DescribedAttachment {
  const fields = fieldsIn(attachment)
  const name = fileNameOf(textIn(fields, names) ?? '') || undefined
  const mediaType = types.map((key) => fields[key]).find(isMediaType)
  return { fields, name, mediaType, source: sourceOf(fields) }
}

function sourceOf(fields: DescribedAttachment['fields']): Source | undefined {
  const { fileId, data, eventId } = fields
  if (typeof fileId === 'string') return { kind: 'file', id: fileId }
  if (typeof data === 'string') return { kind: 'bytes', base64: data }
  const address = textIn(fields, addresses)
  const scheme = address && /^([a-z][a-z0-9+.-]*:)/i.exec(address)?.[1]?.toLowerCase()
  if (address && scheme) {
    if (scheme === 'data:') return inDataUrl(address)
    if (scheme === 'https:' || scheme === 'http:') return { kind: 'web', url: address }
    return { kind: 'plugin', scheme, uri: address }
  }
  if (typeof eventId !== 'string' || eventId === '') return undefined
  return { kind: 'plugin', scheme: 'event:', uri: `event:${eventId}` }
}

/** The parts of a data URL. What is no base64 has base64 that cannot be read, and is refused as such. */
function inDataUrl(url: string): Source {
  const comma = url.indexOf(',')
  const [mediaType = '', ...parameters] = url.slice('data:'.length, comma).split(';')
  const isBase64 = comma > 0 && parameters.at(-1)?.trim().toLowerCase() === 'base64'
  return {
    kind: 'bytes',
    base64: isBase64 ? url.slice(comma + 1) : '!',
    ...(isMediaType(mediaType) && { mediaType }),
  }
}

/** The bytes of base64; undefined where the text is none. */
export function decodedBase64(base64: string): Buffer | undefined {
  if (base64 === '' || base64.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(base64))
    return undefined
  return Buffer.from(base64, 'base64')
}

/** What of an attachment is kept with the message: everything but its contents, which lie in the file. */
export function withoutBytes({ fields }: DescribedAttachment): Record<string, unknown> {
  const kept: Record<string, unknown> = { ...fields }
  delete kept.data
  for (const key of addresses) {
    const address = kept[key]
    if (typeof address === 'string' && /^data:/i.test(address)) delete kept[key]
  }
  return kept
}

function textIn(
  fields: DescribedAttachment['fields'],
  keys: readonly string[],
): string | undefined {
  return keys
    .map((key) => fields[key])
    .find((value): value is string => typeof value === 'string' && value !== '')
}

const isMediaType = (value: unknown): value is string =>
  typeof value === 'string' && /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(\s*;.*)?$/.test(value)
