import { listNames } from '#core/models'
import { addressOf, headersOf, type Access } from './address.ts'

/** The names of the models that a key reaches. */
export function listModels(
  access: Access & { readonly signal: AbortSignal },
): Promise<readonly string[]> {
  const { row, apiKey: secret, signal } = access
  return listNames({
    ...{ secret, signal, url: addressOf(access, '/models'), headers: headersOf(access) },
    variables: { key: row.key, address: row.base },
    entries: ({ data }, page) => (Array.isArray(page) ? page : data),
    nameOf: ({ id }) => id,
  })
}
