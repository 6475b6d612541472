import { endpoint } from '#core/models'
import { baseOf } from './host.ts'

/** Where a server of models is asked, and with which key, where it wants one. */
export interface Access {
  /** An address, or a host and a port as the server's own variable has them. */
  readonly host?: string
  readonly apiKey?: string
}

/** The names of the settings, for the operator who has to look at one. */
export const settingNames = { key: 'OLLAMA_API_KEY', address: 'OLLAMA_HOST' }

/** The address of something that the server answers: `/api/chat`. */
export function addressOf({ host }: Access, path: string): URL {
  const base = baseOf(host).replace(/\/(api|v1)(\/[^?#]*)?$/, '')
  return endpoint(base, { setting: 'OLLAMA_HOST', key: 'OLLAMA_API_KEY', version: '', path })
}

/** The header of the key: servers at home want none, those of others do. */
export function headersOf({ apiKey }: Access): Record<string, string> {
  return apiKey ? { authorization: `Bearer ${apiKey}` } : {}
}
