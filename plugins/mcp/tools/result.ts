import { RuntimeError } from '#core'
import { cleaned, type Result } from './listed.ts'

/** How much of an answer goes on; the kernel keeps and cuts what is too long for the model. */
const mostText = 256 * 1024
const mostPieces = 1_000

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const text = (value: unknown): string => (typeof value === 'string' ? value : '')

/** What the model reads of a call's answer. An answer that says it is an error becomes one. */
export function valueOf(server: string, { content, structuredContent, isError }: Result): unknown {
  if (isError === true) {
    const said = wordsOf(content).slice(0, 4_000)
    throw new RuntimeError(
      'UPSTREAM_FAILED',
      said || `${server}: the tool failed and does not say why.`,
      {
        hint: 'The words are those of the tool. Correct the call, or tell the user what did not work.',
      },
    )
  }
  if (isObject(structuredContent) && Object.keys(structuredContent).length > 0)
    return cleanedDeep(structuredContent, 0)
  return wordsOf(content) || 'The tool answered nothing.'
}

function wordsOf(content: unknown): string {
  if (!Array.isArray(content)) return ''
  const words: string[] = []
  let left = mostText
  for (const piece of content.slice(0, mostPieces)) {
    const said = cleaned(pieceOf(piece).slice(0, left))
    left -= said.length
    if (said !== '') words.push(said)
    if (left <= 0) return `${words.join('\n').toWellFormed()}\n[the rest was cut off]`
  }
  return words.join('\n').toWellFormed()
}

/** A piece as words. Pictures and sounds are named by kind and size; nothing that a link names is ever read. */
function pieceOf(piece: unknown): string {
  if (!isObject(piece)) return ''
  const { type, data, mimeType, resource, uri, name } = piece
  if (type === 'text') return text(piece.text)
  if (type === 'image' || type === 'audio') return `[${kindOf(mimeType, type)}, ${sizeOf(data)}]`
  if (type === 'resource_link') return `[link ${text(name)} ${text(uri)}]`.slice(0, 2_000)
  if (type !== 'resource' || !isObject(resource)) return ''
  if (typeof resource.text === 'string') return resource.text
  return `[${kindOf(resource.mimeType, 'file')}, ${sizeOf(resource.blob)}]`
}

const kindOf = (mimeType: unknown, otherwise: string): string =>
  /^[\w.+-]{1,60}\/[\w.+-]{1,60}$/.test(text(mimeType)) ? text(mimeType) : otherwise

/** The size of what base64 stands for, by its length: nobody decodes it. */
function sizeOf(data: unknown): string {
  const bytes = Math.floor((text(data).length * 3) / 4)
  return bytes < 1_000 ? `${bytes} bytes` : `${Math.round(bytes / 1_000)} kB`
}

const deepest = 20

function cleanedDeep(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return cleaned(value).slice(0, mostText).toWellFormed()
  if (depth >= deepest) return '[deeper than 20 levels]'
  if (Array.isArray(value)) return value.map((each) => cleanedDeep(each, depth + 1))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => key !== '__proto__' && key !== 'constructor')
      .map(([key, each]) => [cleaned(key), cleanedDeep(each, depth + 1)]),
  )
}
