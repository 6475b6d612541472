import { createHash } from 'node:crypto'
import type { ServerEvent } from '../device/device.ts'
import type { Seal } from '../device/sealing.ts'
import { cleaned } from './words.ts'

/** A message of a person, read from an event. */
export interface PersonMessage {
  readonly eventId: string
  readonly sender: string
  readonly text: string
  /** The root of the thread that the message stands in. */
  readonly thread: string | undefined
  /** The message that this one answers or puts other words to. */
  readonly replyTo: string | undefined
  readonly replaces: string | undefined
  readonly mentions: readonly string[]
  readonly file: AttachedFile | undefined
}

/** A file of a message. */
export interface AttachedFile {
  readonly uri: string
  readonly name: string
  readonly mediaType: string
  readonly bytes: number | undefined
  /** What opens an encrypted file. */
  readonly sealed: Readonly<Record<string, unknown>> | undefined
}

const longestText = 60_000
const longestId = 255
const mostMentions = 100
const fileTypes = new Set(['m.image', 'm.file', 'm.audio', 'm.video'])

type Fields = Readonly<Record<string, unknown>>

const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {}
const idOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' && value.length <= longestId ? value : undefined

/** Reads a message; undefined where there is nothing that the oracle answers. */
export function readMessage({ event_id, sender, content }: ServerEvent): PersonMessage | undefined {
  if (content['oracle-runtime.agent'] !== undefined) return undefined
  const relation = fieldsOf(content['m.relates_to'])
  const isEdit = relation.rel_type === 'm.replace'
  const said = isEdit ? fieldsOf(content['m.new_content']) : content
  const type: unknown = said.msgtype
  const isFile = typeof type === 'string' && fileTypes.has(type)
  if (type !== 'm.text' && type !== 'm.emote' && !isFile) return undefined
  const body: unknown = said.body
  if (typeof body !== 'string') return undefined
  const file = isFile ? fileOf(said, body) : undefined
  const isCaption = isFile && typeof said.filename === 'string' && said.filename !== body
  const words = isFile && !isCaption ? '' : withoutQuote(cleaned(body.slice(0, longestText))).trim()
  if (words === '' && !file) return undefined
  const mentions: unknown = fieldsOf(said['m.mentions']).user_ids
  return {
    eventId: event_id,
    sender,
    text: words,
    thread: relation.rel_type === 'm.thread' ? idOf(relation.event_id) : undefined,
    replyTo: idOf(fieldsOf(relation['m.in_reply_to']).event_id),
    replaces: isEdit ? idOf(relation.event_id) : undefined,
    mentions: Array.isArray(mentions)
      ? mentions.slice(0, mostMentions).filter((one) => typeof one === 'string')
      : [],
    file,
  }
}

function fileOf(said: Fields, body: string): AttachedFile | undefined {
  const sealed = said.file === undefined ? undefined : fieldsOf(said.file)
  const uri = sealed ? sealed.url : said.url
  if (typeof uri !== 'string' || !/^mxc:\/\/[^\s/]+\/[\w-]{1,255}$/.test(uri)) return undefined
  const info = fieldsOf(said.info)
  const named = typeof said.filename === 'string' ? said.filename : body
  return {
    uri,
    name: cleaned(named).slice(0, 200) || 'file',
    mediaType: typeof info.mimetype === 'string' ? info.mimetype.slice(0, 100) : '',
    bytes: typeof info.size === 'number' ? info.size : undefined,
    sealed,
  }
}

/** A reply of an older client repeats what it answers; the words begin after that. */
const withoutQuote = (text: string): string =>
  text.startsWith('> <') ? text.replace(/^(?:>.*\n)+\n?/, '') : text

/** The request id of a message: the same for the same event, whoever computes it. */
export function requestIdOf(eventId: string): string {
  const hex = createHash('sha256').update(eventId).digest('hex')
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `4${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
  ]
  return [...parts, hex.slice(20, 32)].join('-')
}

/** The session of a person in a thread, or in the timeline. */
export function sessionIdOf(...parts: readonly (string | number)[]): string {
  const hash = createHash('sha256').update(JSON.stringify(parts)).digest('hex')
  return `room-${hash.slice(0, 32)}`
}

/** A file as the turn has it. The ticket says that this very person wrote it in a room. */
export function attachmentOf(
  { uri, name, mediaType, sealed }: AttachedFile,
  did: string,
  seal: Seal,
) {
  const ticket = seal.mac('file', `${did} ${uri}`)
  return { mxcUri: uri, name, mimetype: mediaType, ticket, ...(sealed && { sealed }) }
}
