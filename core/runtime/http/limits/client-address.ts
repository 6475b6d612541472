import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'

/** The parts of a request that tell where the request came from. */
interface Connected {
  readonly socket: Pick<IncomingMessage['socket'], 'remoteAddress'>
  readonly headers?: IncomingMessage['headers']
}

/**
 * The address a request came from: the socket's, or behind a trusted proxy the rightmost
 * `X-Forwarded-For` hop, the only one that the proxy itself wrote. An IPv4 address that is written as IPv6 becomes plain
 * IPv4, so that one client has one name.
 */
export function clientAddress(req: Connected, trustProxy = false): string {
  if (trustProxy && req.headers) {
    const forwarded = req.headers['x-forwarded-for']
    if (typeof forwarded === 'string') {
      const hop = withoutPort(forwarded.slice(forwarded.lastIndexOf(',') + 1).trim())
      if (isIP(hop) !== 0) return plain(hop)
    }
  }
  return plain(req.socket.remoteAddress ?? 'unknown')
}

/** Some proxies write the port along: `192.0.2.1:443`, `[2001:db8::1]:443`. */
function withoutPort(hop: string): string {
  if (hop.startsWith('[')) return hop.slice(1, Math.max(hop.indexOf(']'), 1))
  const colon = hop.indexOf(':')
  return colon > 0 && colon === hop.lastIndexOf(':') ? hop.slice(0, colon) : hop
}

const mapped = '::ffff:'

function plain(address: string): string {
  if (!address.includes(':')) return address
  const lower = address.toLowerCase()
  return lower.startsWith(mapped) && isIP(lower.slice(mapped.length)) === 4
    ? lower.slice(mapped.length)
    : lower
}

/**
 * What counts as one client: an IPv4 address, or the /64 of an IPv6 one, which is what a single
 * subscriber is given and can change addresses in at will. Addresses that translate IPv4 stay whole.
 */
export function clientNetwork(address: string): string {
  if (!address.includes(':') || address.startsWith('64:ff9b:')) return address
  const [left = '', right] = address.split('::')
  const head = left === '' ? [] : left.split(':')
  const tail = right === undefined || right === '' ? [] : right.split(':')
  const groups = [
    ...head,
    ...Array<string>(Math.max(8 - head.length - tail.length, 0)).fill('0'),
    ...tail,
  ]
  return groups.slice(0, 4).join(':')
}
