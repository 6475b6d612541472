import { addressOf, headersOf } from '../chat/address.ts'
import type { ChatOptions } from '../chat/model.ts'
import { ResponsesModel } from './model.ts'

/** Opens a model behind Responses. */
export function openResponses(options: ChatOptions): ResponsesModel {
  const { id, name, apiKey: secret, row, settings, maxAnswer } = options
  return new ResponsesModel({
    ...{ id, name, settings, secret, maxAnswer },
    url: addressOf(options, '/responses'),
    headers: headersOf(options),
    variables: { key: row.key, address: row.base },
    reads: row.reads,
  })
}
