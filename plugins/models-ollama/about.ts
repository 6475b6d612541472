import { askProvider, type Model } from '#core/models'
import { addressOf, headersOf, settingNames, type Access } from './address.ts'

/** What the server knows of a model. */
export interface About {
  /** How many tokens the model was made for; undefined where the server does not say so. */
  readonly window?: number
  /** What the model can do, in the server's words; undefined where the server is too old to say so. */
  readonly capabilities?: readonly string[]
}

/** How long the server may take to say it: it reads a file for it. */
const headMs = 15_000

/** Asks the server what it knows of a model. */
export async function aboutModel(
  name: string,
  access: Access,
  signal: AbortSignal,
): Promise<About> {
  const answer = (await askProvider({
    url: addressOf(access, '/api/show'),
    headers: headersOf(access),
    body: JSON.stringify({ model: name }),
    asked: { model: name, secret: access.apiKey, settings: settingNames },
    signal,
    attempts: 2,
    headMs,
  })) as { readonly model_info?: unknown; readonly capabilities?: unknown } | null
  const capabilities = answer?.capabilities
  return {
    window: windowIn(answer?.model_info),
    ...(Array.isArray(capabilities) && {
      capabilities: capabilities.filter((each) => typeof each === 'string'),
    }),
  }
}

/** The length of the context, whose name begins with the family of the model: `llama.context_length`. */
function windowIn(info: unknown): number | undefined {
  if (typeof info !== 'object' || info === null) return undefined
  for (const [key, value] of Object.entries(info))
    if (key.endsWith('.context_length') && Number.isSafeInteger(value) && value > 0) return value
  return undefined
}

/** What a model reads beside text. */
export function readsOf({ capabilities }: About): Model['reads'] {
  return capabilities?.includes('vision')
    ? { image: ['image/png', 'image/jpeg', 'image/webp'] }
    : undefined
}

/** The window where neither the model nor the operator asks for less: more takes memory that many machines do not have. */
const usualWindow = 32_768

/**
 * How many tokens the server is told to read, the same in every request, because another number loads the model anew.
 * `wanted` is what the operator set; no model reads more than it was made for.
 */
export function windowOf({ window = Infinity }: About, wanted = usualWindow): number {
  return Math.min(window, wanted)
}
