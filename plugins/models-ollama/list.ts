import { askProvider } from '#core/models'
import { addressOf, headersOf, settingNames, type Access } from './address.ts'

/** The most models that are listed of one server. */
const mostModels = 2000

/** The names of the models that the server has. */
export async function listModels(access: Access, signal: AbortSignal): Promise<readonly string[]> {
  const answer = (await askProvider({
    url: addressOf(access, '/api/tags'),
    headers: headersOf(access),
    asked: { model: 'models', secret: access.apiKey, settings: settingNames },
    signal,
  })) as { readonly models?: unknown } | null
  const models = answer?.models
  if (!Array.isArray(models)) return []
  return models
    .slice(0, mostModels)
    .map(
      (each: { readonly model?: unknown; readonly name?: unknown } | null) =>
        each?.model ?? each?.name,
    )
    .filter((name) => typeof name === 'string')
}
