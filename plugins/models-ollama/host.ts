/** Where a server listens that nobody has told otherwise. */
const usualHost = 'http://127.0.0.1:11434'
const usualPort = '11434'

/** What is wrong with an address; undefined when nothing is. */
export function addressFault(host: string | undefined): string | undefined {
  const base = baseOf(host)
  const url = URL.canParse(base) ? new URL(base) : undefined
  return url && /^https?:$/.test(url.protocol) && !url.username && !url.password
    ? undefined
    : 'Write an address like http://127.0.0.1:11434, or a host and a port.'
}

/** An address with its scheme and port: the variable of the server itself may leave out both. */
export function baseOf(host: string | undefined): string {
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
