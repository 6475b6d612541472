import type { Message, Model, RunUsage } from '../../../plugin.ts'
import { UsageSum } from '../../model/usage/usage-sum.ts'
import type { Gauges } from '../../model/window/gauges.ts'
import { summaryLine, summaryRequest } from '../../model/window/summary-request.ts'
import { isSummary, textOfSummary } from '../../turns/summary.ts'
import { beginningOf, withText } from './results.ts'

/** How much of a result is read for a summary. */
const mostOfResult = 2_000
/** The part of a window that the text may have which a model is to summarise. */
const readShare = 0.6
/** In how many pieces a conversation is read at most; where that is not enough, its oldest part is not read. */
const mostPieces = 12
/** A text shorter than this is no piece of its own. */
const leastPiece = 1_000

/** What a model wrote, or what its attempt cost. */
export interface AskedAside {
  readonly text: string
  /** The id of the model that wrote it. */
  readonly model: string
  /** What that cost, a line for each model that was asked. */
  readonly usages: readonly RunUsage[]
  /** Why there is no whole text. */
  readonly error?: unknown
}

/** Asks a model beside the conversation of the turn. */
export type AskAside = (model: Model, messages: readonly Message[]) => Promise<AskedAside>

/** What came of a summary: its text, or why there is none. */
export interface Summarised {
  readonly text: string
  readonly model: string
  /** What all calls of it cost, a line for each model that was asked. */
  readonly usages: readonly RunUsage[]
  readonly error?: unknown
}

/** What a summary is made with. */
export interface SummaryOptions {
  readonly model: Model
  readonly gauges: Gauges
  readonly ask: AskAside
  /** How many characters it may have. */
  readonly characters: number
}

/**
 * Has a model summarise messages: at once, or piece by piece where they are too long for it, each piece with the summary of
 * those before it.
 */
export async function summarised(
  messages: readonly Message[],
  { model, gauges, ask, characters }: SummaryOptions,
): Promise<Summarised> {
  const gauge = gauges.of(model)
  const room = gauge.bytes(gauge.window(model) * readShare) - characters
  const spent = new UsageSum()
  let text = ''
  let by = model.id
  for (const piece of pieces(linesOf(messages), Math.max(leastPiece, room))) {
    const earlier = text ? [summaryLine({ by: 'earlier', text: oneParagraph(text) })] : []
    const asked = summaryRequest([...earlier, ...piece].join('\n\n'), characters)
    const answer = await ask(model, asked)
    for (const usage of answer.usages) spent.add(usage)
    const written = answer.text.trim()
    if (answer.error !== undefined || written === '')
      return failed(answer.model, spent, answer.error ?? new Error('The summary is empty.'))
    // A summary that is too long is used as far as it may be long.
    text =
      written.length <= characters ? written : `${written.slice(0, characters).toWellFormed()}…`
    by = answer.model
  }
  if (text === '') return failed(by, spent, new Error('There is nothing to summarise.'))
  return { text, model: by, usages: spent.byModel() }
}

const failed = (model: string, spent: UsageSum, error: unknown): Summarised => {
  return { text: '', model, usages: spent.byModel(), error }
}

/** The lines of a conversation, a paragraph for each message. */
function linesOf(messages: readonly Message[]): string[] {
  return messages.flatMap((message): string[] => {
    if (message.role === 'system') return []
    if (isSummary(message))
      return [summaryLine({ by: 'earlier', text: oneParagraph(textOfSummary(message)) })]
    if (message.role === 'tool') {
      const { content } = withText(message, (text) => beginningOf(text, mostOfResult))
      const what = message.failed ? 'failed' : 'answered'
      return [
        summaryLine({ by: 'tool', text: oneParagraph(`${message.name} ${what}: ${content}`) }),
      ]
    }
    const calls = message.role === 'assistant' ? (message.toolCalls ?? []) : []
    const said = oneParagraph(message.content)
    const by = message.role
    return [
      ...(said ? [summaryLine({ by, text: said })] : []),
      ...calls.map(({ name, args }) => {
        const json = beginningOf(JSON.stringify(args) ?? '', mostOfResult)
        return summaryLine({
          by: 'tool',
          text: oneParagraph(`The assistant calls ${name}: ${json}`),
        })
      }),
    ]
  })
}

/** A text without empty lines, which stand between messages. */
const oneParagraph = (text: string): string => text.trim().replace(/\n\s*\n/g, '\n')

/** Lines in pieces of at most so many bytes; a line that is longer than a piece is cut. The newest pieces are kept. */
function pieces(lines: readonly string[], room: number): string[][] {
  const all: string[][] = []
  let left = 0
  for (const line of lines) {
    const whole = Buffer.byteLength(line)
    const cut =
      whole <= room ? line : beginningOf(line, Math.floor((line.length * room) / whole) - 50)
    const bytes = Math.min(whole, room) + 2
    if (all.length === 0 || bytes > left) {
      all.push([])
      left = room
    }
    all.at(-1)?.push(cut)
    left -= bytes
  }
  return all.slice(-mostPieces)
}
