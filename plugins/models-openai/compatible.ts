import type { Model, OfferSettings } from '#core'

/** A provider whose models speak chat completions, and how its dialect differs from the common one. */
export interface Compatible {
  readonly label: string
  /** The usual address, up to the version of the API; none where every operator has an address of their own. */
  readonly address?: string
  /** What an address without a path is continued with. */
  readonly version?: string
  /** The variables of the key and of the address. */
  readonly key: string
  readonly base: string
  /** The provider answers without a key. */
  readonly keyless?: true
  /** The header of the key, in place of a bearer token. */
  readonly header?: string
  /** What the provider wants back with messages that have calls: `reasoning_content`, or its list of `reasoning_details`. */
  readonly reasoning?: 'content' | 'details'
  /** Messages with calls of other models need an empty `reasoning_content`. */
  readonly emptyReasoning?: true
  /** Models at the usual address are asked by Responses, which gives back what they thought. */
  readonly responses?: true
  /** The field of the longest answer. */
  readonly length?: 'max_completion_tokens'
  /** What its models read beside text, unless the settings say otherwise. */
  readonly reads?: Model['reads']
  /** The provider has no mode for answers by a JSON Schema. */
  readonly withoutSchemas?: true
  /** The provider makes no vectors of texts. */
  readonly withoutVectors?: true
}

const named = (
  name: string,
  label: string,
  address: string,
  dialect: Partial<Compatible> = {},
): Compatible => {
  const prefix = name.toUpperCase().replaceAll('-', '_')
  return { label, address, key: `${prefix}_API_KEY`, base: `${prefix}_BASE_URL`, ...dialect }
}

const pictures = ['image/png', 'image/jpeg', 'image/gif', 'image/webp']
const ofOpenAi = {
  length: 'max_completion_tokens',
  reads: { image: pictures, file: ['application/pdf'] },
} as const

/** The providers behind chat completions, by what stands before the slash in MODEL. */
export const compatible: Readonly<Record<string, Compatible>> = {
  openai: named('openai', 'OpenAI', 'https://api.openai.com/v1', {
    responses: true,
    ...ofOpenAi,
  }),
  azure: {
    label: 'Azure OpenAI',
    version: '/openai/v1',
    key: 'AZURE_OPENAI_API_KEY',
    base: 'AZURE_OPENAI_ENDPOINT',
    header: 'api-key',
    ...ofOpenAi,
  },
  openrouter: named('openrouter', 'OpenRouter', 'https://openrouter.ai/api/v1', {
    reasoning: 'details',
  }),
  deepseek: named('deepseek', 'DeepSeek', 'https://api.deepseek.com/v1', {
    reasoning: 'content',
    emptyReasoning: true,
    withoutSchemas: true,
    withoutVectors: true,
  }),
  mistral: named('mistral', 'Mistral', 'https://api.mistral.ai/v1'),
  groq: named('groq', 'Groq', 'https://api.groq.com/openai/v1', { withoutVectors: true }),
  xai: named('xai', 'xAI', 'https://api.x.ai/v1'),
  moonshotai: named('moonshotai', 'Moonshot AI', 'https://api.moonshot.ai/v1', {
    reasoning: 'content',
    withoutSchemas: true,
    withoutVectors: true,
  }),
  'z-ai': named('z-ai', 'Z.ai', 'https://api.z.ai/api/paas/v4', {
    reasoning: 'content',
    withoutSchemas: true,
  }),
  together: named('together', 'Together AI', 'https://api.together.xyz/v1'),
  fireworks: named('fireworks', 'Fireworks AI', 'https://api.fireworks.ai/inference/v1'),
  lmstudio: named('lmstudio', 'LM Studio', 'http://127.0.0.1:1234/v1', { keyless: true }),
  vllm: named('vllm', 'vLLM', 'http://127.0.0.1:8000/v1', { keyless: true }),
}

/** Whether a model is asked by Responses: where the operator says so, and else at the address of their maker. */
export function speaksResponses({
  baseUrl,
  row,
  settings,
}: {
  readonly baseUrl?: string
  readonly row: Compatible
  readonly settings?: OfferSettings
}): boolean {
  if (settings?.wire !== undefined) return settings.wire === 'responses'
  if (!row.responses || row.address === undefined) return false
  return new URL(baseUrl ?? row.address).host === new URL(row.address).host
}
