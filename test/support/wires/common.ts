import type { Delta, Message, ModelRequest, ModelUsage } from '../../../core/plugin.ts'
import { modelTransport, type FrameReader, type Wire } from '#core/models'
import type { Model } from '#core'

export type Fields = Readonly<Record<string, unknown>>
export const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {}
export const listOf = (value: unknown): Fields[] =>
  Array.isArray(value) ? value.map(fieldsOf) : []
export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')
export const numberOf = (value: unknown): number | undefined =>
  typeof value === 'number' && value >= 0 ? value : undefined

/** Where a minimal client finds its provider. */
export interface Place {
  readonly url: string
  readonly key: string
}

export type Assistant = Extract<Message, { role: 'assistant' }>

/** What the model of this id wants back of a message; undefined for a message of another model. */
export const givenBack = (message: Assistant, id: string): Fields | undefined =>
  message.provider?.by === id ? fieldsOf(message.provider.data) : undefined

/** The bytes of a message's pictures in base64. */
export async function picturesOf(
  { parts = [] }: { readonly parts?: Extract<Message, { role: 'user' }>['parts'] },
  request: ModelRequest,
): Promise<{ mediaType: string; data: string }[]> {
  const made = parts.map(async ({ mediaType, file }) => {
    const bytes = (await request.file?.(file)) ?? new Uint8Array()
    return { mediaType, data: Buffer.from(bytes).toString('base64') }
  })
  return await Promise.all(made)
}

/** A usage delta, or none where the provider counted nothing, or below zero. */
export function usageDelta(
  input: number | undefined,
  output: number | undefined,
  rest: Partial<ModelUsage> = {},
): Delta[] {
  if (input === undefined || output === undefined) return []
  return [{ type: 'usage', inputTokens: input, outputTokens: output, ...rest }]
}

/** The error of a provider in the stream. */
export class StreamFault extends Error {}

/** Makes a model of a wire. */
export function modelOn(
  place: Place,
  path: string,
  wire: (id: string) => Wire,
  rest: Partial<Model> & {
    readonly headers?: Readonly<Record<string, string>>
    readonly lines?: boolean
  } = {},
): Model {
  const { headers = { authorization: `Bearer ${place.key}` }, lines, ...more } = rest
  const id = `test${path}`
  const transport = modelTransport({
    model: 'fake-large',
    url: new URL(path, place.url),
    headers,
    secret: place.key,
    settings: { key: 'KEY', address: 'ADDRESS' },
    wire: wire(id),
    ...(lines && { framing: 'lines' }),
  })
  return {
    id,
    reads: { image: ['image/png'] },
    can: { object: true },
    stream: (request) => transport.stream(request),
    streamTo: (request, take) => transport.streamTo(request, take),
    ...more,
  }
}

export type { FrameReader, Wire }
