import { endpoint } from '#core/models'
import type { Compatible } from '../compatible.ts'

/** Where a provider is asked, and with which headers. */
export interface Access {
  readonly apiKey?: string
  /** Any compatible endpoint: with or without a version, a trailing slash, or the path of its answers. */
  readonly baseUrl?: string
  readonly row: Compatible
}

/** The address of something that a provider answers. */
export function addressOf({ baseUrl, row }: Access, path: string): URL {
  const base = (baseUrl ?? row.address ?? '').replace(/\/(chat\/completions|responses)\/*$/, '')
  return endpoint(base, {
    setting: row.base,
    key: row.key,
    version: row.version ?? '/v1',
    path,
  })
}

/** The headers with the key. */
export function headersOf({ apiKey, row }: Access): Record<string, string> {
  if (!apiKey) return {}
  return row.header ? { [row.header]: apiKey } : { authorization: `Bearer ${apiKey}` }
}
