import { listNames } from '#core/models'
import { addressOf, headersOf, type Access } from './access.ts'
import { variables } from './names.ts'

/** How many models a page has at most, as the provider limits it. */
const pageSize = '1000'

/** The names of the models that a key reaches. */
export function listModels(
  access: Access & { readonly signal: AbortSignal },
): Promise<readonly string[]> {
  const { apiKey: secret, signal } = access
  const url = addressOf(access, '/models')
  url.searchParams.set('limit', pageSize)
  return listNames({
    ...{ url, secret, signal, variables },
    headers: headersOf(access),
    entries: ({ data }) => data,
    nameOf: ({ id }) => id,
    next: ({ has_more, last_id }) => (has_more === true ? ['after_id', last_id] : undefined),
  })
}
