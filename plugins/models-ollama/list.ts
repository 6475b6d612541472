import { listNames } from '#core/models'
import { addressOf, headersOf, settingNames, type Access } from './address.ts'

/** The names of the models that the server has. */
export function listModels(access: Access, signal: AbortSignal): Promise<readonly string[]> {
  return listNames({
    ...{ signal, secret: access.apiKey, variables: settingNames },
    url: addressOf(access, '/api/tags'),
    headers: headersOf(access),
    entries: ({ models }) => models,
    nameOf: ({ model, name }) => model ?? name,
  })
}
