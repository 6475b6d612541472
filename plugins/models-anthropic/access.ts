import { endpoint } from '#core/models'
import { usualAddress, variables } from './names.ts'

/** Where the provider is asked, and with which key. */
export interface Access {
  readonly apiKey?: string
  /** The address of the provider or of a server that speaks as it does, with or without its version. */
  readonly baseUrl?: string
}

/** The address of something that the provider answers. */
export function addressOf({ baseUrl = usualAddress }: Access, path: string): URL {
  const base = baseUrl.replace(/\/+$/, '').replace(/\/messages$/, '')
  // Servers that speak Messages below a path of their own expect the version after that path.
  const whole = /\/v\d\w*$/.test(base) ? base : `${base}/v1`
  return endpoint(URL.canParse(whole) ? whole : base, {
    setting: variables.address,
    key: variables.key,
    version: '/v1',
    path,
  })
}

/** The headers with the version of the wire and the key. */
export function headersOf({ apiKey }: Access): Record<string, string> {
  return { 'anthropic-version': '2023-06-01', ...(apiKey && { 'x-api-key': apiKey }) }
}
