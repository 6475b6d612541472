import { endpoint } from '#core/models'

/** The usual address of the provider. */
export const usualAddress = 'https://api.anthropic.com'

/** The names of the variables, for the sentences of errors. */
export const variables = { key: 'ANTHROPIC_API_KEY', address: 'ANTHROPIC_BASE_URL' } as const

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
