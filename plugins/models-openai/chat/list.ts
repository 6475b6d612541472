import { askProvider } from '#core/models'
import { addressOf, headersOf, type Access } from './address.ts'

/** The most models that are listed of one provider. */
const mostModels = 2000

/** The names of the models that a key reaches. */
export async function listModels(
  access: Access & { readonly signal: AbortSignal },
): Promise<readonly string[]> {
  const { row, apiKey, signal } = access
  const answer = (await askProvider({
    url: addressOf(access, '/models'),
    headers: headersOf(access),
    asked: { model: 'models', secret: apiKey, settings: { key: row.key, address: row.base } },
    signal,
  })) as { readonly data?: unknown } | null
  const entries = Array.isArray(answer) ? answer : answer?.data
  if (!Array.isArray(entries)) return []
  return entries
    .slice(0, mostModels)
    .flatMap((entry) => (typeof entry?.id === 'string' ? [entry.id] : []))
}
