import type { Server } from 'node:http'
import { RuntimeError } from '../../errors.ts'

/** Where a server listens: an address that can be opened, and the port that it got. */
export interface Listening {
  readonly url: string
  readonly port: number
}

/** Begins to listen, or says in a sentence why that cannot be. Port 0 takes a free one. */
export function listen(server: Server, port: number, host: string): Promise<Listening> {
  return new Promise((resolve, reject) => {
    const refuse = (cause: NodeJS.ErrnoException) =>
      reject(
        cause.code === 'EADDRINUSE'
          ? new RuntimeError('PORT_IN_USE', `Something else listens on ${host}:${port}.`, {
              hint: 'Set PORT to a free port, or stop the other server.',
              cause,
            })
          : new RuntimeError('BOOT_FAILED', `Cannot listen on ${host}:${port}: ${cause.message}`, {
              hint: 'Check HOST and PORT.',
              cause,
            }),
      )
    server.once('error', refuse)
    server.listen(port, host, () => {
      server.off('error', refuse)
      const address = server.address()
      const bound = typeof address === 'object' && address !== null ? address.port : port
      resolve({ url: `http://${reachable(host)}:${bound}`, port: bound })
    })
  })
}

/** A host that a browser can open: listening everywhere includes this machine. */
function reachable(host: string): string {
  if (host === '0.0.0.0' || host === '::' || host === '') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}
