import { addressOf, headersOf } from '../chat/address.ts'
import type { ChatOptions } from '../chat/model.ts'
import { ResponsesModel } from './model.ts'

/** Whether a model is asked by Responses: where the operator says so, and else at the address of their maker. */
export function speaksResponses({
  baseUrl,
  row,
  settings,
}: Omit<ChatOptions, 'id' | 'name'>): boolean {
  if (settings?.wire !== undefined) return settings.wire === 'responses'
  if (!row.responses || row.address === undefined) return false
  return new URL(baseUrl ?? row.address).host === new URL(row.address).host
}

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
