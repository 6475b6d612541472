import { RuntimeError } from '../../../errors.ts'

/** What stands behind a base address. */
interface EndpointOptions {
  /** The name of the setting that holds the address, for the operator. */
  readonly setting: string
  /** The variable that holds the key, which does not belong into an address. */
  readonly key: string
  /** What an address without a path is continued with: `/v1`. */
  readonly version: string
  /** What is asked below the version: `/chat/completions`. */
  readonly path: string
}

/**
 * The address of a provider's service from the base that an operator set, with or without its version, a slash at its end, or
 * the whole path.
 */
export function endpoint(base: string, { setting, key, version, path }: EndpointOptions): URL {
  const url = URL.canParse(base) ? new URL(base) : undefined
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password)
    throw new RuntimeError('ENV_INVALID', `${setting} is not an http or https address.`, {
      hint: `Write an address like https://api.example.com${version}, and put the key into ${key}.`,
    })
  const given = url.pathname.replace(/\/+$/, '')
  if (!given.endsWith(path)) url.pathname = `${given || version}${path}`
  return url
}
