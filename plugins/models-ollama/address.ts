import { endpoint } from '#core/models'

/** Where a server listens that nobody has told otherwise. */
const usualHost = 'http://127.0.0.1:11434'
const usualPort = '11434'

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

/** What is wrong with an address; undefined when nothing is. */
export function addressFault(host: string | undefined): string | undefined {
  const base = baseOf(host)
  const url = URL.canParse(base) ? new URL(base) : undefined
  return url && /^https?:$/.test(url.protocol) && !url.username && !url.password
    ? undefined
    : 'Write an address like http://127.0.0.1:11434, or a host and a port.'
}

/** The header of the key: servers at home want none, those of others do. */
export function headersOf({ apiKey }: Access): Record<string, string> {
  return apiKey ? { authorization: `Bearer ${apiKey}` } : {}
}

/** An address with its scheme and port: the variable of the server itself may leave out both. */
function baseOf(host: string | undefined): string {
  const given = host?.trim().replace(/\/+$/, '')
  if (!given) return usualHost
  if (given.includes('://')) return given
  const url = URL.canParse(`http://${given}`) ? new URL(`http://${given}`) : undefined
  if (!url) return given
  url.port ||= usualPort
  // A server that listens everywhere is found here.
  if (url.hostname === '0.0.0.0') url.hostname = '127.0.0.1'
  if (url.hostname === '[::]') url.hostname = '[::1]'
  return url.href.replace(/\/$/, '')
}
