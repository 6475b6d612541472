import type { AiSdkOptions } from '#core/models'

/** What is set for the models of one package beside what the operator sets. */
type Known = Omit<AiSdkOptions, 'id' | 'settings' | 'secret' | 'names'>

const budgets = { none: 0, low: 2048, medium: 8192, high: 24_576, max: 24_576 } as const
const levels = { none: 'minimal', low: 'low', medium: 'medium', high: 'high', max: 'high' } as const
const efforts = { none: 'none', low: 'low', medium: 'medium', high: 'high', max: 'xhigh' } as const

/** The provider keeps nothing of a conversation: what a model thought comes sealed, and goes back with the next request. */
const stateless = { store: false, include: ['reasoning.encrypted_content'] }

/** The packages of which more is known than the AI SDK tells. A package that is not here works by what it says itself. */
export const known: Readonly<Record<string, Known>> = {
  '@ai-sdk/openai': {
    can: { object: true },
    providerOptions: { openai: stateless },
    thinking: (reasoning) => ({ openai: { reasoningEffort: efforts[reasoning] } }),
  },
  '@ai-sdk/azure': {
    can: { object: true },
    providerOptions: { azure: stateless, openai: stateless },
    thinking: (reasoning) => ({ openai: { reasoningEffort: efforts[reasoning] } }),
  },
  '@ai-sdk/anthropic': {
    can: { object: true },
    thinksThrough: true,
    thinking: (reasoning) => ({
      anthropic:
        reasoning === 'none'
          ? { thinking: { type: 'disabled' } }
          : { thinking: { type: 'enabled', budgetTokens: budgets[reasoning] } },
    }),
  },
  '@ai-sdk/amazon-bedrock': { thinksThrough: true },
  '@ai-sdk/google': {
    can: { object: true },
    // The provider documents this word for calls of other models.
    callOfOthers: { google: { thoughtSignature: 'skip_thought_signature_validator' } },
    reads: {
      image: ['image/png', 'image/jpeg', 'image/webp', 'image/heic', 'image/heif'],
      audio: ['audio/wav', 'audio/mpeg', 'audio/ogg', 'audio/flac', 'audio/aac'],
      file: ['application/pdf'],
    },
    thinking: (reasoning) => ({
      google: {
        thinkingConfig: {
          thinkingLevel: levels[reasoning],
          ...(reasoning !== 'none' && { includeThoughts: true }),
        },
      },
    }),
  },
}
