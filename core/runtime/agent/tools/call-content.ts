import type { MessagePart } from '../../../plugin.ts'
import type { ResultSource } from '../../turns/run.ts'
import { labelOf, pagePlugin } from '../turn/consent.ts'
import { cutData, dataOf, fitsIn, resultText, usualResultBytes } from './tool-content.ts'
import { ofTheRun } from './of-the-run.ts'
import { keepParts, writtenParts } from '../turn/result-parts.ts'
import type { Calling } from './tool-call.ts'

/** A result that is larger is not kept: the model reads its beginning and hears how much there was. */
const mostKeptBytes = 8 * 1024 * 1024

/** What the model gets of a result. */
export interface CallContent {
  readonly content: string
  readonly parts?: readonly MessagePart[]
  /** What the mark of a write keeps, where that is not the content. */
  readonly written?: string
}

/** The result of a call as the model gets it: text, and the files of a result of `parts`. */
export async function contentOfCall(calling: Calling, value: unknown): Promise<CallContent> {
  const keeping = keepParts(value, calling.turn.files)
  if (!keeping) return { content: await textOfCall(calling, value) }
  const kept = await ofTheRun(calling, async () => keeping)
  const content = await textOfCall(calling, kept.text)
  return { content, parts: kept.parts, written: writtenParts({ ...kept, text: content }) }
}

/**
 * The result of a call as the model reads it. A result that is too long is kept whole with the run, and the model gets a
 * part of it with the handle by which `read_result` reads on.
 */
async function textOfCall(calling: Calling, value: unknown): Promise<string> {
  const { entry, site, turn, call } = calling
  const text = resultText(value)
  const maxBytes = site.maxResultBytes ?? entry.maxResultBytes ?? usualResultBytes
  if (fitsIn(text, maxBytes)) return text
  if (calling.cut && calling.cut.value === value) return calling.cut.content
  const data = dataOf(value, text)
  const body = typeof data === 'string' ? JSON.stringify(data) : text
  const { results } = site
  const isKept = results && Buffer.byteLength(body) <= mostKeptBytes
  const source = sourceOf(calling)
  const handle = isKept
    ? await ofTheRun(calling, () => results.keep({ toolCallId: call.id, body, source }))
    : undefined
  if (handle !== undefined) turn.results.areKept = true
  const content = cutData(data, text, maxBytes, handle)
  calling.cut = { value, content }
  return content
}

/** Where a call's result came from, when it holds other people's words. */
export function sourceOf({ entry, call, foreign }: Calling): ResultSource | undefined {
  if (typeof foreign === 'object') return foreign
  if (!entry.foreign && !foreign) return undefined
  if (entry.client) return { plugin: pagePlugin }
  const label = labelOf(call.args)
  const plugin = entry.record?.name ?? 'kernel'
  return { plugin, ...(label !== undefined && { label }) }
}
