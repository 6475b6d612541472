import { askProvider } from '#core/models'
import { addressOf, headersOf, type Access } from './access.ts'
import { variables } from './names.ts'

/** How many models a page has at most, as the provider limits it. */
const pageSize = 1000
/** How many pages are read at most. */
const mostPages = 5

interface Page {
  readonly models?: unknown
  readonly nextPageToken?: unknown
}

/** The names of the models that a key reaches and that answer in words or make vectors. */
export async function listModels(
  access: Access & { readonly signal: AbortSignal },
): Promise<readonly string[]> {
  const { apiKey, signal } = access
  const url = addressOf(access, '/models')
  url.searchParams.set('pageSize', String(pageSize))
  const names: string[] = []
  for (let nth = 0; nth < mostPages; nth++) {
    const page = (await askProvider({
      url,
      headers: headersOf(access),
      asked: { model: 'models', secret: apiKey, settings: variables },
      signal,
    })) as Page | null
    if (Array.isArray(page?.models))
      for (const entry of page.models.slice(0, pageSize))
        if (typeof entry?.name === 'string' && isOfUse(entry.supportedGenerationMethods))
          names.push(entry.name.replace(/^models\//, ''))
    if (typeof page?.nextPageToken !== 'string' || !page.nextPageToken) break
    url.searchParams.set('pageToken', page.nextPageToken)
  }
  return names
}

function isOfUse(methods: unknown): boolean {
  if (!Array.isArray(methods)) return true
  return methods.includes('generateContent') || methods.includes('embedContent')
}
