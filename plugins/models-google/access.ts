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
  const base = baseUrl.replace(/\/+$/, '').replace(/\/models$/, '')
  const whole = /\/v\d\w*$/.test(base) ? base : `${base}/v1beta`
  return endpoint(URL.canParse(whole) ? whole : base, {
    setting: variables.address,
    key: variables.key,
    version: '/v1beta',
    path,
  })
}

/** What a model is called in an address: `models/<name>`, or the whole name of a tuned one. */
export function resourceOf(name: string): string {
  const whole = name.includes('/') ? name : `models/${name}`
  return whole.split('/').map(encodeURIComponent).join('/')
}

/** The headers with the key. */
export function headersOf({ apiKey }: Access): Record<string, string> {
  return apiKey ? { 'x-goog-api-key': apiKey } : {}
}
