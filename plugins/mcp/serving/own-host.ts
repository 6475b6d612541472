import type { IncomingMessage } from 'node:http'
import { RuntimeError } from '#core'

/** What a request may say of where it was sent to, and from which page. */
export interface OwnHosts {
  /** Where clients find the oracle. */
  readonly url: () => string
  /** Other origins whose pages may call, each by name. */
  readonly origins: ReadonlySet<string>
}

const loopbackNames = ['localhost', '127.0.0.1', '[::1]']

/**
 * Refuses a request that was sent to another host, or from a page of another origin: a page that has its own name lead to this
 * machine would otherwise speak to a server that only this machine reaches.
 */
export function demandOwnHost({ headers, socket }: IncomingMessage, own: OwnHosts): void {
  const { host, origin } = headers
  const hosts = hostsOf(own.url(), socket.localPort)
  if (host === undefined || !hosts.includes(host.toLowerCase()))
    throw new RuntimeError('FORBIDDEN', 'The request names another host than this server.', {
      hint: `Send it to ${own.url()}, and behind a proxy keep the header Host.`,
    })
  if (origin === undefined || own.origins.has(origin)) return
  if (hosts.some((each) => origin === `http://${each}` || origin === `https://${each}`)) return
  throw new RuntimeError('FORBIDDEN', 'The request comes from a page of another origin.', {
    hint: 'Call it from a program, or name the origin in CORS_ORIGIN: * does not count here.',
  })
}

/** The hosts that are this server's: that of its address, and the names of this machine with the port that it listens on. */
function hostsOf(url: string, port: number | undefined): string[] {
  const { host } = new URL(url)
  return [host, ...loopbackNames.map((name) => `${name}:${port ?? 0}`)]
}

/** The origins of CORS_ORIGIN that stand there by name. */
export const namedOrigins = (setting = ''): ReadonlySet<string> =>
  new Set(
    setting
      .split(',')
      .map((origin) => origin.trim().replace(/\/$/, ''))
      .filter((origin) => origin !== '' && origin !== '*'),
  )
