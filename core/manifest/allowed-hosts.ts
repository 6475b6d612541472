import { isIP, isIPv6 } from 'node:net'

/** A host that OUTBOUND_ALLOW names: the server may call it although it is inside the network. */
export interface AllowedHost {
  /** The name or the address as a URL has it; of `*.name` what stands after the star, with its dot. */
  readonly host: string
  /** Whether the entry stands for every name below `host`, and not for `host` itself. */
  readonly isSuffix: boolean
  /** The one port that is meant; without it 443 and 80 are. */
  readonly port: number | undefined
}

/** What an entry of OUTBOUND_ALLOW may look like, for the sentence of a fault. */
export const allowedHostForms =
  'hosts with commas between, each as name, *.name or address:port (an IPv6 address in brackets), without a scheme or a path'

/** The hosts of OUTBOUND_ALLOW; undefined when one of them cannot be read. */
export function readAllowedHosts(text: string): readonly AllowedHost[] | undefined {
  const hosts: AllowedHost[] = []
  for (const entry of text.split(',')) {
    if (entry.trim() === '') continue
    const host = readAllowedHost(entry.trim())
    if (!host) return undefined
    hosts.push(host)
  }
  return hosts
}

function readAllowedHost(entry: string): AllowedHost | undefined {
  const isSuffix = entry.startsWith('*.')
  const rest = isSuffix ? entry.slice(2) : entry
  const written = isIPv6(rest) ? `[${rest}]` : rest
  const [, name = '', digits] =
    /^(\[[0-9a-f:.]+\]|[^[\]:/?#@*\\\s]+)(?::(\d{1,5}))?$/i.exec(written) ?? []
  if (name === '' || !URL.canParse(`https://${name}`)) return undefined
  const port = digits === undefined ? undefined : Number(digits)
  if (port !== undefined && (port < 1 || port > 65_535)) return undefined
  const host = hostOf(new URL(`https://${name}`))
  if (isSuffix && isIP(host) !== 0) return undefined
  return { host: isSuffix ? `.${host}` : host, isSuffix, port }
}

/** The host of a URL as it is compared: without the brackets of an IPv6 address and the dot that may end a name. */
export const hostOf = ({ hostname }: URL): string =>
  hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')

/** The port of a URL, also where the URL leaves it to its scheme. */
export const portOf = ({ port, protocol }: URL): number =>
  port === '' ? (protocol === 'http:' ? 80 : 443) : Number(port)

/** Whether one of the entries stands for the host and port of a URL. */
export function isAllowedHost(url: URL, allowed: readonly AllowedHost[]): boolean {
  const [host, port] = [hostOf(url), portOf(url)]
  return allowed.some((entry) => {
    if (entry.port === undefined ? port !== 443 && port !== 80 : port !== entry.port) return false
    return entry.isSuffix ? host.endsWith(entry.host) : host === entry.host
  })
}
