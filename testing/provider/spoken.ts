import { randomBytes } from 'node:crypto'
import type { ModelUsage } from '../../core/plugin.ts'
import type { ProviderCall, ProviderRequest, ProviderSpeech, ProviderWire } from './answers.ts'
import { wordsOf } from './read.ts'
import type { Spoken } from './wire.ts'

/** How many bytes a token has, as the fake provider counts. */
export const bytesPerToken = 4

const usualArgsPerChunk = 8

/** Decides everything of a speech that its wire needs. */
export function spokenOf(
  speech: ProviderSpeech,
  wire: ProviderWire,
  request: ProviderRequest,
): Spoken {
  const thoughts = speech.reasoning === undefined ? [] : [speech.reasoning].flat()
  const text = speech.describes ? described(request) : (speech.text ?? '')
  const words = typeof text === 'string' ? wordsOf(text) : text
  const calls = (speech.calls ?? []).map((call) => ({
    id: call.id ?? newId(wire),
    name: call.name,
    json: jsonOf(call),
  }))
  const characters = [...thoughts, ...words, ...calls.map(({ name, json }) => `${name}${json}`)]
  return {
    answer: randomBytes(6).toString('hex'),
    model: request.model,
    thoughts,
    isRedacted: speech.redacted === true,
    words,
    calls,
    usages: usagesOf(speech.usage, request, characters.join('').length),
    finish: speech.finish ?? 'stop',
    isSigned: speech.unsigned !== true,
    signatureBytes: speech.signatureBytes ?? 0,
    argsPerChunk: speech.argsPerChunk ?? usualArgsPerChunk,
    isCut: speech.then !== undefined,
  }
}

function described({ media }: ProviderRequest): string {
  return media.map(({ mediaType, bytes }) => `${mediaType} ${bytes.length}`).join(', ') || 'nothing'
}

/** A call without arguments has an empty text on the wires that stream them as text. */
function jsonOf({ args }: ProviderCall): string {
  if (args === undefined) return ''
  return typeof args === 'string' ? args : JSON.stringify(args)
}

const newId = (wire: ProviderWire): string =>
  `${wire === 'messages' ? 'toolu' : 'call'}_${randomBytes(9).toString('hex')}`

function usagesOf(
  usage: ProviderSpeech['usage'],
  { tokens }: ProviderRequest,
  characters: number,
): readonly ModelUsage[] {
  if (usage === false) return []
  const outputTokens = Math.ceil(characters / bytesPerToken)
  return [usage ?? { inputTokens: tokens, outputTokens }].flat()
}
