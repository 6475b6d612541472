import { z } from 'zod'
import { RuntimeError } from '../../../errors.ts'
import { bytesOf, Cut, headOf } from './cut-result.ts'
import { specOf, type ToolEntry } from './entry.ts'

/** The name of the tool that reads on in a result that was cut. */
export const readResultName = 'read_result'

/** How large one page is: less than what a model gets of a result, so that no page is cut again. */
const pageBytes = 30 * 1024
/** How much of a text stands around a place that was found. */
const aroundFound = 200

const input = z.object({
  handle: z.string().min(1).max(60).describe('The handle that stands in "$more"'),
  path: z.string().max(500).optional().describe('The path that stands in "$more", if one does'),
  from: z
    .int()
    .min(0)
    .optional()
    .describe(
      'The first item, key or character, counted from 0: at first what "$more" has as shown',
    ),
  count: z.int().min(1).max(100_000).optional().describe('How many at most'),
  search: z.string().min(1).max(200).optional().describe('Only what holds these words'),
})
type Asked = z.output<typeof input>

const description =
  'Reads on in the result of a tool that was too long to be shown whole: where "$more" stands, something was left out. ' +
  'Answers with the next items of an array, keys of an object or characters of a text; "next" is the "from" of the page after.'

/** The kernel's tool that reads on in a result that was cut. A result of other people's words stays one. */
export const readResultEntry: ToolEntry = {
  name: readResultName,
  spec: specOf(readResultName, { description, input }),
  effect: 'read',
  // The result of a page is foreign where the kept result is: `run` then sets `calling.foreign`.
  foreign: false,
  input,
  async run(args, calling) {
    const asked = input.parse(args)
    const kept = await calling.site.results?.read(asked.handle)
    if (!kept)
      throw new RuntimeError('NOT_FOUND', `There is no result "${asked.handle}" in this session.`, {
        hint: 'Results are deleted after some days. Call the tool again that gave it.',
      })
    if (kept.source) calling.foreign = kept.source
    const path = asked.path ?? ''
    return pageOf(valueAt(JSON.parse(kept.body), path, asked.handle), asked, path)
  },
}

/** The value at a JSON Pointer. */
function valueAt(whole: unknown, path: string, handle: string): unknown {
  let value = whole
  for (const part of path === '' ? [] : path.replace(/^\//, '').split('/')) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key))
      throw new RuntimeError('NOT_FOUND', `The result "${handle}" has nothing at "${path}".`, {
        hint: 'Give the path as it stands in "$more", such as /rows; without a path the whole result is read.',
      })
    value = (value as Readonly<Record<string, unknown>>)[key]
  }
  return value
}

function pageOf(value: unknown, asked: Asked, path: string): unknown {
  if (typeof value === 'string') return asked.search ? found(value, asked) : textPage(value, asked)
  if (typeof value !== 'object' || value === null) return { value }
  const isArray = Array.isArray(value)
  const entries: readonly (readonly [string, unknown])[] = Object.entries(value)
  const { handle, from = 0, count = Infinity, search } = asked
  const words = search?.toLowerCase()
  const shown: (readonly [string, unknown])[] = []
  let left = pageBytes
  let at = from
  for (; at < entries.length && shown.length < count; at++) {
    const [key, inner] = entries[at]!
    if (words && !holds(isArray ? inner : [key, inner], words)) continue
    const bytes = bytesOf(inner, left) + bytesOf(key, left) + 8
    if (bytes <= left) {
      shown.push([key, inner])
      left -= bytes
      continue
    }
    if (shown.length > 0) break
    const place = `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`
    shown.push([key, new Cut(handle).fit(inner, left - 500, place)])
    at++
    break
  }
  const end = { of: entries.length, ...(at < entries.length && { next: at }) }
  if (!isArray) return { keys: Object.fromEntries(shown), from, ...end }
  if (!search) return { items: shown.map(([, inner]) => inner), from, ...end }
  return { found: shown.map(([key, item]) => ({ at: Number(key), item })), from, ...end }
}

const holds = (value: unknown, words: string): boolean =>
  (typeof value === 'string' ? value : JSON.stringify(value)).toLowerCase().includes(words)

function textPage(text: string, { from = 0, count = Infinity }: Asked): unknown {
  const shown = headOf(text.slice(from, Math.min(text.length, from + count)), pageBytes - 500)
  const next = from + shown.length
  return { text: shown, from, of: text.length, ...(next < text.length && { next }) }
}

/** The places of a text where words stand, with some of the text around each. */
function found(text: string, { search = '', from = 0, count = 20 }: Asked): unknown {
  const [lower, words] = [text.toLowerCase(), search.toLowerCase()]
  const places: { at: number; text: string }[] = []
  let at = lower.indexOf(words, from)
  for (
    ;
    at >= 0 && places.length < Math.min(count, 20);
    at = lower.indexOf(words, at + words.length)
  ) {
    const around = text.slice(Math.max(0, at - aroundFound), at + words.length + aroundFound)
    places.push({ at, text: around.toWellFormed() })
  }
  return { found: places, of: text.length, ...(at >= 0 && { next: at }) }
}
