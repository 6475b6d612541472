import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** A wire to a PostgreSQL that can swallow notifications, and lets everything else through. */
export interface DeafWire {
  readonly url: string
  deafen(): void
  hear(): void
  close(): Promise<void>
}

const notificationResponse = 'A'.charCodeAt(0)

/** Opens such a wire; it does not speak TLS. */
export async function deafWire(target: string): Promise<DeafWire> {
  const to = new URL(target)
  const open = new Set<Socket>()
  let isDeaf = false
  const server = createServer((near) => {
    const far = connect({ host: to.hostname, port: Number(to.port || 5432) })
    for (const socket of [near, far]) {
      open.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => (open.delete(socket), near.destroy(), far.destroy()))
    }
    near.on('data', (bytes) => far.write(bytes))
    let rest = Buffer.alloc(0)
    far.on('data', (bytes: Buffer) => {
      rest = Buffer.concat([rest, bytes])
      // A message of the server is a letter and a length, which counts itself.
      while (rest.length >= 5 && rest.length > rest.readUInt32BE(1)) {
        const end = 1 + rest.readUInt32BE(1)
        const message = rest.subarray(0, end)
        rest = rest.subarray(end)
        if (!isDeaf || message[0] !== notificationResponse) near.write(message)
      }
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = new URL(target)
  url.hostname = '127.0.0.1'
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    deafen: () => void (isDeaf = true),
    hear: () => void (isDeaf = false),
    async close() {
      for (const socket of open) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
