import type { Approvals, Message } from '../../../plugin.ts'
import type { ForeignSource, JournalEntry, Run } from '../../turns/run.ts'
import { quote } from '../../base/quote.ts'
import { attachmentLabel } from '../../turns/attachments.ts'

/** So many sources are told to a person, and the first of every kind: some calls are judged by one kind alone. */
const mostSources = 20
const longestLabel = 100

/** The loop of the turn itself, beside those of sub-agents, which go by the ids of their calls. */
const ownLoop = ''

/** What of a run says who can be asked. */
type Asked = Partial<Pick<Run, 'request' | 'isWatched' | 'watched'>>

/**
 * What a turn has read of other people's words, and who can be asked about what it does then. A loop's calls are
 * judged by what had been read when its model was asked: a write beside a read of the same step was decided before the
 * read said anything. All of it is found again in the journal, so a run that is taken over or resumed judges alike.
 */
export class Consent {
  readonly #sources: ForeignSource[] = []
  readonly #knownTo = new Map<string, number>()
  readonly #run: Asked

  constructor(run: Asked = {}, past: readonly JournalEntry[] = []) {
    this.#run = run
    const label = attachmentLabel(run.request?.attachments)
    if (label !== undefined) this.read({ kind: 'attachment', label })
    for (const { messages, within } of past)
      for (const message of messages) {
        if (message.role === 'assistant') this.asks(within)
        if (message.role === 'tool' && message.foreign) this.read(foreignSourceOf(message))
      }
  }

  /** Whether a person can be asked, as far as this process knows just now. */
  get approvals(): Approvals {
    const { request, isWatched } = this.#run
    return request?.approvals || isWatched ? 'events' : false
  }

  /** The same, after the other replicas were asked for a socket of the session that shows approvals. */
  async look(): Promise<Approvals> {
    if (!this.approvals) await this.#run.watched?.()
    return this.approvals
  }

  read(source: ForeignSource): void {
    const isFirst = this.#sources.every(({ kind }) => kind !== source.kind)
    if (this.#sources.length >= mostSources && !isFirst) return
    const isSame = (one: ForeignSource) =>
      one.kind === source.kind && one.tool === source.tool && one.label === source.label
    if (!this.#sources.some(isSame)) this.#sources.push(source)
  }

  /** The model of a loop is asked: what it calls next it calls knowing all that was read so far. */
  asks(within = ownLoop): void {
    this.#knownTo.set(within, this.#sources.length)
  }

  /** What had been read when the model of a loop was asked last. */
  behind(within = ownLoop): readonly ForeignSource[] {
    return this.#sources.slice(0, this.#knownTo.get(within) ?? this.#sources.length)
  }
}

type Read = Pick<Extract<Message, { role: 'tool' }>, 'name' | 'foreign'>

/** Where a foreign result came from. A tool that no plugin has is one of the user's page. */
export function foreignSourceOf({ name, foreign }: Read): ForeignSource {
  const { plugin, label } = foreign ?? {}
  return plugin === pagePlugin
    ? { kind: 'page', tool: name }
    : { kind: 'tool', tool: name, plugin, label }
}

/** What stands in the place of a plugin's name where the user's own page answers; no plugin can be called so. */
export const pagePlugin = '(page)'

/**
 * The arguments of a call in brief, so that a person knows which entity or place was read. A text speaks for itself; a number
 * says nothing without the name of its argument.
 */
export function labelOf(args: unknown): string | undefined {
  let words = ''
  for (const [name, value] of Object.entries(Object(args))) {
    if (typeof value !== 'string' && typeof value !== 'number') continue
    words += `${words === '' ? '' : ', '}${typeof value === 'string' ? value : `${name} ${value}`}`
  }
  // A character that turns text round could make a person read another name.
  if (!isPlain.test(words)) words = words.replace(/[\s\p{Cc}]+/gu, ' ').replace(/\p{Cf}/gu, '')
  return words === '' ? undefined : words.slice(0, longestLabel).toWellFormed()
}

/** Text in which nothing has to be replaced, such as most ids. */
const isPlain = /^[!-~]*$/

/** Sources as a person reads them: `get_entity did:ixo:entity:1 (registry)`. */
export const sourcesText = (sources: readonly ForeignSource[]): string =>
  sources
    .map(({ kind, tool, plugin, label }) =>
      kind === 'attachment'
        ? `the attachment ${label}`
        : kind === 'page'
          ? `${tool} of your page`
          : `${tool}${label === undefined ? '' : ` ${label}`} (${plugin})`,
    )
    .join(', ')

/** Why a person is asked, or told. */
export const reasonOf = (sources: readonly ForeignSource[]): string =>
  `Before this was asked for, words of others were read: ${sourcesText(sources)}. They may be what asks for it.`

const quotations = new WeakMap<Message, Message>()

/** A message as a model is sent it: what others wrote stands between marks. The same message stays the same object. */
export function asSent(message: Message): Message {
  if (message.role !== 'tool' || !message.foreign) return message
  let sent = quotations.get(message)
  if (!sent) {
    const { foreign: _, ...plain } = message
    const content = quote(message.content, `from ${message.name}, not from the user`, message.id)
    quotations.set(message, (sent = { ...plain, content }))
  }
  return sent
}
