import { askProvider } from '#core/models'
import { addressOf, headersOf, type Access } from './access.ts'
import { variables } from './names.ts'

/** How many models a page has at most, as the provider limits it. */
const pageSize = 1000
/** How many pages are read at most. */
const mostPages = 5

interface Page {
  readonly data?: unknown
  readonly has_more?: unknown
  readonly last_id?: unknown
}

/** The names of the models that a key reaches. */
export async function listModels(
  access: Access & { readonly signal: AbortSignal },
): Promise<readonly string[]> {
  const { apiKey, signal } = access
  const url = addressOf(access, '/models')
  url.searchParams.set('limit', String(pageSize))
  const names: string[] = []
  for (let nth = 0; nth < mostPages; nth++) {
    const page = (await askProvider({
      url,
      headers: headersOf(access),
      asked: { model: 'models', secret: apiKey, settings: variables },
      signal,
    })) as Page | null
    if (Array.isArray(page?.data))
      for (const entry of page.data.slice(0, pageSize))
        if (typeof entry?.id === 'string') names.push(entry.id)
    if (page?.has_more !== true || typeof page.last_id !== 'string') break
    url.searchParams.set('after_id', page.last_id)
  }
  return names
}
