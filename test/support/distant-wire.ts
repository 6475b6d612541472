import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** Opens a wire to the server at `target` on which every byte takes its time, in each direction. */
export async function distantWire(
  target: string,
  eachWayMs: number,
): Promise<{ readonly url: string; close(): Promise<void> }> {
  const to = new URL(target)
  const open = new Set<Socket>()
  const server = createServer((near) => {
    const far = connect({ host: to.hostname, port: Number(to.port || 5432) })
    for (const [from, into] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(from)
      from.setNoDelay(true)
      // Timers of one length fire in the order in which they were set, so bytes stay in theirs.
      const later = (work: () => void) => void setTimeout(() => into.destroyed || work(), eachWayMs)
      from.on('data', (bytes) => later(() => into.write(bytes)))
      from.on('error', () => {})
      from.on('close', () => (open.delete(from), later(() => into.destroy())))
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = new URL(target)
  url.hostname = '127.0.0.1'
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    async close() {
      for (const socket of open) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
