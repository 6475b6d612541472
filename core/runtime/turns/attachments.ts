import type { TurnRequest } from './run.ts'

/** The fields in which clients put the name of an attachment: its shape is the client's own. */
const names = ['name', 'filename', 'fileName', 'title']
const types = ['mimeType', 'mimetype', 'mediaType', 'contentType', 'type']
const addresses = ['url', 'uri', 'mxcUri', 'href']

const mostShown = 20
/** How many characters of attachments' names a person sees who is asked about a call. */
const longestLabel = 100

/**
 * A user's words as the model reads them: with the names, types and addresses of what is attached. The contents stay
 * with the client: only the provider knows which of them a model can take, and a model that refuses one would refuse the turn.
 */
export function withAttachments(message: string, attachments: TurnRequest['attachments']): string {
  if (!attachments?.length) return message
  const lines = attachments.slice(0, mostShown).map((attachment) => `- ${described(attachment)}`)
  const more = attachments.length - lines.length
  if (more > 0) lines.push(`- and ${more} more`)
  return `${message}\n\n[Attached to this message; you see what they are called, not what is in them:\n${lines.join('\n')}]`
}

/** What is attached, in brief. Undefined when nothing is. */
export function attachmentLabel(attachments: TurnRequest['attachments']): string | undefined {
  if (!attachments?.length) return undefined
  const shown = attachments.slice(0, mostShown)
  return line(shown.map(nameOf).join(', '), longestLabel)
}

function nameOf(attachment: unknown): string {
  if (typeof attachment === 'string') return attachment
  return first(Object(attachment), names) ?? 'without a name'
}

function described(attachment: unknown): string {
  if (typeof attachment === 'string') return quoted(attachment)
  const fields: Record<string, unknown> = Object(attachment)
  const name = first(fields, names)
  const type = first(fields, types)
  const address = first(fields, addresses)
  return [
    name === undefined ? 'without a name' : quoted(name),
    type === undefined ? '' : `(${line(type, 100)})`,
    // A data URL holds the contents of the attachment, and the model does not get contents.
    address === undefined || /^data:/i.test(address) ? '' : `at ${line(address, 2_000)}`,
  ]
    .filter(Boolean)
    .join(' ')
}

function first(fields: Record<string, unknown>, keys: readonly string[]): string | undefined {
  return keys
    .map((key) => fields[key])
    .find((value): value is string => typeof value === 'string' && value !== '')
}

const quoted = (name: string) => JSON.stringify(line(name, 200))

/** A name on one line, so that a name of several lines does not look like words of the runtime. */
const line = (text: string, length: number) =>
  text
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .slice(0, length)
    .toWellFormed()
