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
  const { id, name, apiKey, row, settings = {}, maxAnswer } = options
  const { attempts, connectMs, firstTokenMs, idleMs, stallMs, headers } = settings
  return new ResponsesModel({
    id,
    model: name,
    url: addressOf(options, '/responses'),
    headers: { ...headersOf(options), ...headers },
    secret: apiKey,
    settings: { key: settings.keyFrom ?? row.key, address: row.base },
    reads: settings.reads ?? row.reads,
    ...{ attempts, connectMs, firstTokenMs, idleMs, stallMs, maxAnswer },
  })
}
