import { createHash } from 'node:crypto'
import type { ProviderRequest, ProviderRules } from './answers.ts'
import { itemsOf, recordsOf, textOf } from './read.ts'

/** What an address of embeddings answers. */
export interface Embedded {
  readonly status: number
  readonly body: unknown
}

const usualDimensions = 8

/** Answers a request for embeddings; undefined where the path is none of them. The same text has the same vector. */
export function embedded(
  { path, body, tokens }: ProviderRequest,
  rules: ProviderRules,
): Embedded | undefined {
  const { pathname } = new URL(path, 'http://localhost')
  const ok = (answer: unknown): Embedded => ({ status: 200, body: answer })
  const refused = (message: string): Embedded => ({
    status: 400,
    body: { error: { message, code: 400, status: 'INVALID_ARGUMENT' } },
  })
  const texts = typeof body.input === 'string' ? [body.input] : itemsOf(body.input).map(textOf)
  const asked = Number(body.dimensions) || undefined
  if (/\/(v\d\w*|deployments\/[^/]+)\/embeddings$/.test(pathname)) {
    if (texts.length === 0 || texts.some((text) => !text))
      return refused("Invalid 'input': input cannot be an empty string.")
    if (texts.length > 2048)
      return refused("Invalid 'input': array too long. Expected an array with maximum length 2048.")
    const data = texts.map((text, index) => {
      const vector = vectorOf(text, rules, asked)
      const isPacked = body.encoding_format === 'base64'
      const packed = Buffer.from(Float32Array.from(vector).buffer).toString('base64')
      return { object: 'embedding', index, embedding: isPacked ? packed : vector }
    })
    // The order is what `index` says, and not the order of the list.
    const usage = { prompt_tokens: tokens, total_tokens: tokens }
    return ok({ object: 'list', data: data.reverse(), model: body.model, usage })
  }
  if (pathname === '/api/embed')
    return ok({
      model: body.model,
      embeddings: texts.map((text) => vectorOf(text, rules, asked)),
      prompt_eval_count: tokens,
    })
  const [, method] =
    /^\/v1(?:beta)?\/models\/[^/:]+:(embedContent|batchEmbedContents)$/.exec(pathname) ?? []
  if (!method) return undefined
  const requests = method === 'embedContent' ? [body] : recordsOf(body.requests)
  if (requests.length > 100)
    return refused('* BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch')
  const values = requests.map(({ content, outputDimensionality }) => {
    const parts = recordsOf(recordsOf([content])[0]?.parts)
    const text = parts.map((part) => textOf(part.text)).join('')
    return { values: vectorOf(text, rules, Number(outputDimensionality) || undefined) }
  })
  return ok(method === 'embedContent' ? { embedding: values[0] } : { embeddings: values })
}

/** The vector of a text: numbers from its hash, so that equal texts are near and others are not. */
function vectorOf(
  text: string,
  { dimensions }: ProviderRules,
  asked: number | undefined,
): number[] {
  const length = dimensions ?? asked ?? usualDimensions
  const numbers: number[] = []
  for (let block = 0; numbers.length < length; block++)
    for (const byte of createHash('sha256').update(`${block}:${text}`).digest())
      if (numbers.length < length) numbers.push((byte - 127.5) / 127.5)
  const size = Math.hypot(...numbers)
  return numbers.map((number) => number / size)
}
