import type { Duplex } from 'node:stream'

interface Response {
  readonly headersSent: boolean
}

/** The response under way on a socket. Node tells it only through a field that it does not document. */
export function responseOf(socket: Duplex): Response | undefined {
  return (socket as { _httpMessage?: Response | null })._httpMessage ?? undefined
}
