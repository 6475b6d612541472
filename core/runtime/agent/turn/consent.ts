import { RuntimeError } from '../../../errors.ts'
import type { Approvals, Message } from '../../../plugin.ts'
import type { ForeignSource, JournalEntry, Run } from '../../turns/run.ts'
import { fieldsIn } from '../../base/fields.ts'
import { quote } from '../../base/quote.ts'
import { attachmentLabel } from '../../turns/attachments.ts'
import { isSummary, isWords } from '../../turns/summary.ts'

/** How many sources a turn remembers, beside the first of every kind: `foreignBehind` judges some calls by one kind alone. */
const mostSources = 20
const longestLabel = 100

/** The name of the turn's own loop. The loop of a sub-agent has the id of its call as name. */
const ownLoop = ''

/** The parts of a run that say whether a person can be asked. */
type Asked = Partial<Pick<Run, 'request' | 'isWatched' | 'watched'>>

/**
 * What a turn has read of other people's words, and whether a person can be asked about a call that follows. The sources
 * of a call are those read before the model was asked: when one step has a read and a write, the model decided on the
 * write before it saw the result of the read. The constructor finds all of this in the journal, so a run that another
 * process takes over or resumes judges alike.
 *
 * The words of earlier turns stand between marks. In a summary they have no marks, and they stand on the user's side, so a
 * summary of such words counts as read by every turn that begins with it.
 */
export class Consent {
  readonly #sources: ForeignSource[] = []
  readonly #knownTo = new Map<string, number>()
  readonly #run: Asked
  /** The user has answered to a write that the turn before did not let through: what summaries hold asks no second time. */
  readonly #isTold: boolean

  /** `before` is the conversation up to and with the words that began the turn. */
  constructor(
    run: Asked = {},
    past: readonly JournalEntry[] = [],
    before: readonly Message[] = [],
  ) {
    this.#run = run
    this.#isTold = wasToldOfAWrite(before)
    for (const message of before) if (isSummary(message)) this.readSummary(foreignIn(message))
    const label = attachmentLabel(run.request?.attachments)
    if (label !== undefined) this.read({ kind: 'attachment', label })
    const { quoted, origin } = run.request ?? {}
    if (quoted?.length) this.read({ kind: 'quoted', plugin: origin })
    for (const { messages, within, summary } of past) {
      for (const message of messages) {
        if (message.role === 'assistant') this.asks(within)
        if (message.role === 'tool' && message.foreign) this.read(foreignSourceOf(message))
      }
      if (within === undefined) this.readSummary(summary?.foreign)
    }
  }

  /** How a person can be asked, as far as this process knows now. */
  get approvals(): Approvals {
    const { request, isWatched } = this.#run
    if (request?.approvals === 'never') return false
    if (request?.approvals === 'words') return 'words'
    return request?.approvals || isWatched ? 'events' : false
  }

  /** The language in which a person is asked, where somebody said which. */
  get language(): string | undefined {
    return this.#run.request?.language
  }

  /** Whether the turn was begun where nobody can be asked, so that even what asks of itself is refused. */
  get isNever(): boolean {
    return this.#run.request?.approvals === 'never'
  }

  /** The same, after this process asked the other replicas for a socket of the session that shows approvals. */
  async look(): Promise<Approvals> {
    if (!this.approvals && !this.isNever) await this.#run.watched?.()
    return this.approvals
  }

  /** Notes that the turn has read words of others. */
  read(source: ForeignSource): void {
    const isFirst = this.#sources.every(({ kind }) => kind !== source.kind)
    if (this.#sources.length >= mostSources && !isFirst) return
    const isSame = (one: ForeignSource) =>
      one.kind === source.kind && one.tool === source.tool && one.label === source.label
    if (!this.#sources.some(isSame)) this.#sources.push(source)
  }

  /** Notes that a summary stands for older messages; `foreign` says whose words are in it, where others' are. */
  readSummary(foreign: string | undefined): void {
    if (foreign !== undefined && !this.#isTold) this.read({ kind: 'summary', label: foreign })
  }

  /** Notes that a loop asks its model: the model makes its next calls knowing all that was read so far. */
  asks(within = ownLoop): void {
    this.#knownTo.set(within, this.#sources.length)
  }

  /** The sources that had been read when a loop last asked its model. */
  behind(within = ownLoop): readonly ForeignSource[] {
    return this.#sources.slice(0, this.#knownTo.get(within) ?? this.#sources.length)
  }
}

type Read = Pick<Extract<Message, { role: 'tool' }>, 'name' | 'foreign'>

/** Where the words of a foreign result came from: the user's page, or the tool of a plugin. */
export function foreignSourceOf({ name, foreign }: Read): ForeignSource {
  const { plugin, label } = foreign ?? {}
  return plugin === pagePlugin
    ? { kind: 'page', tool: name }
    : { kind: 'tool', tool: name, plugin, label }
}

/** Stands for the name of the plugin in a result of the user's own page. The parentheses keep it apart from every plugin. */
export const pagePlugin = '(page)'

/**
 * The arguments of a call in brief, so that a person knows which entity or place was read. The label has a text as it is, and
 * puts before a number the name of its argument.
 */
export function labelOf(args: unknown): string | undefined {
  let words = ''
  for (const [name, value] of Object.entries(Object(args))) {
    if (typeof value !== 'string' && typeof value !== 'number') continue
    words += `${words === '' ? '' : ', '}${typeof value === 'string' ? value : `${name} ${value}`}`
  }
  // A format character can reverse the direction of text, so that a person reads another name.
  if (!isPlain.test(words)) words = words.replace(/[\s\p{Cc}]+/gu, ' ').replace(/\p{Cf}/gu, '')
  return words === '' ? undefined : words.slice(0, longestLabel).toWellFormed()
}

/** Text in which `labelOf` has nothing to replace, such as most ids. */
const isPlain = /^[!-~]*$/

/** The sources as text for a person: `get_entity did:ixo:entity:1 (registry)`. */
export const sourcesText = (sources: readonly ForeignSource[]): string =>
  sources
    .map(({ kind, tool, plugin, label }) =>
      kind === 'attachment'
        ? `the attachment ${label}`
        : kind === 'page'
          ? `${tool} of your page`
          : kind === 'quoted'
            ? passedOn(plugin)
            : kind === 'summary'
              ? `the summary of ${label}`
              : `${tool}${label === undefined ? '' : ` ${label}`} (${plugin})`,
    )
    .join(', ')

const passedOn = (plugin = 'a plugin') => `what ${plugin} passed on`

/** Whose words a message holds beside those of the user and the assistant, in brief; undefined where it holds none. */
function foreignIn(message: Message): string | undefined {
  if (message.role === 'user') return message.foreign?.label
  if (message.role !== 'tool' || !message.foreign) return undefined
  return sourcesText([foreignSourceOf(message)])
}

/** The same of many messages: the newest ones are named, as far as a person reads a list. */
export function foreignInAll(messages: readonly Message[]): string | undefined {
  const labels = new Set<string>()
  for (const message of messages.toReversed()) {
    const label = foreignIn(message)
    if (label !== undefined) labels.add(label)
    if (labels.size >= mostSources) break
  }
  if (labels.size === 0) return undefined
  return [...labels].join(', ').slice(0, longestLabel).toWellFormed()
}

/** Whether the turn before these words ended with a write that nobody could be asked about. */
function wasToldOfAWrite(before: readonly Message[]): boolean {
  const turn = before.slice(0, -1)
  const began = turn.findLastIndex(isWords)
  return turn.slice(began + 1).some((message) => {
    // A call that was not run says nothing in the words of others.
    if (message.role !== 'tool' || !message.failed || message.foreign) return false
    return codeIn(message.content) === 'CONSENT_NEEDED'
  })
}

/** The code of an error as a model reads it. */
function codeIn(content: string): unknown {
  try {
    return fieldsIn(JSON.parse(content)).code
  } catch {
    return undefined // a long error is cut, and is no JSON any more
  }
}

/** The sentence that tells a person why they are asked about a call, or what stood before it. */
export const reasonOf = (sources: readonly ForeignSource[]): string =>
  `Before this was asked for, words of others were read: ${sourcesText(sources)}. They may be what asks for it.`

/** A message in the form in which a model reads it: the words of others stand between marks. */
export function asSent(message: Message): Message {
  if (message.role === 'assistant' && (message.usage ?? message.ended)) {
    const { usage: _, ended: __, ...said } = message
    return said
  }
  if (message.role !== 'tool' || !message.foreign) return message
  return { ...message, content: quote(message.content, message.name, message.id) }
}

/** The fault of a decision about a call when the session has no call that waits. */
export const nothingWaits = () =>
  new RuntimeError('CONFLICT', 'Nothing waits for a decision here.', {
    hint: 'The call was decided already, or a newer message took its place.',
  })
