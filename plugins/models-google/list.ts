import { listNames } from '#core/models'
import { addressOf, headersOf, type Access } from './access.ts'
import { variables } from './names.ts'

/** How many models a page has at most, as the provider limits it. */
const pageSize = '1000'

/** The names of the models that a key reaches and that answer in words or make vectors. */
export function listModels(
  access: Access & { readonly signal: AbortSignal },
): Promise<readonly string[]> {
  const { apiKey: secret, signal } = access
  const url = addressOf(access, '/models')
  url.searchParams.set('pageSize', pageSize)
  return listNames({
    ...{ url, secret, signal, variables },
    headers: headersOf(access),
    entries: ({ models }) => models,
    nameOf: ({ name, supportedGenerationMethods: methods }) =>
      typeof name === 'string' && isOfUse(methods) ? name.replace(/^models\//, '') : undefined,
    next: ({ nextPageToken }) => ['pageToken', nextPageToken],
  })
}

function isOfUse(methods: unknown): boolean {
  if (!Array.isArray(methods)) return true
  return methods.includes('generateContent') || methods.includes('embedContent')
}
