import type { Context } from 'koa'
import { wasForwarded } from '../http/limits/forwarded.ts'

const loopback = /^(127\.\d+\.\d+\.\d+|::1)$/
const loopbackHost = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/i

/**
 * Whether a request comes from this machine, and no foreign page can have made it: the socket is loopback, the Host is
 * too (a page that rebinds its name cannot change that), no proxy stands between, and the Origin, if any, is the server's.
 */
export function fromThisMachine(koa: Context, isOwnOrigin: (origin: string) => boolean): boolean {
  const { origin, host = '', 'sec-fetch-site': site } = koa.headers
  const address = koa.req.socket.remoteAddress?.replace(/^::ffff:/, '') ?? ''
  if (!loopback.test(address) || !loopbackHost.test(host)) return false
  if (wasForwarded(koa.headers)) return false
  if (origin !== undefined) return isOwnOrigin(origin)
  return site === undefined || site === 'same-origin' || site === 'none'
}
