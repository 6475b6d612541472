import { createSocket, type RemoteInfo, type Socket } from 'node:dgram'
import { once } from 'node:events'

/** A network for sound between pages and an oracle: it can lose packets, pass them on in bursts, and be away. */
export class UdpForwarder implements AsyncDisposable {
  /** The network is away: nothing passes in either direction. */
  isOff = false
  /** Of a hundred packets so many are lost, in both directions. */
  percentLost = 0
  /** What the oracle sends waits, and goes on together each time that so long has passed. */
  burstMs = 0
  passed = 0
  lost = 0
  readonly #sockets = new Set<Socket>()
  readonly #held: (() => void)[] = []
  #seed = 7

  /** An answer whose only address is one of this network, behind which the oracle's own is. */
  async behind(sdp: string): Promise<string> {
    const own = /^a=candidate:\S+ \d+ udp \d+ 127\.0\.0\.1 (\d+) typ host.*$/im.exec(sdp)
    if (!own) throw new Error('The answer has no candidate at loopback.')
    const port = await this.#listen(Number(own[1]))
    const candidate = `a=candidate:1 1 udp 2130706431 127.0.0.1 ${port} typ host`
    let isTold = false
    const lines = sdp.split(/\r?\n/).flatMap((line) => {
      if (!line.startsWith('a=candidate:')) return [line]
      if (isTold) return []
      isTold = true
      return [candidate]
    })
    return lines.join('\r\n')
  }

  /** Listens for pages, and passes on to the port of the oracle, from another port for each page. */
  async #listen(target: number): Promise<number> {
    const front = this.#socket()
    const behind = new Map<string, Socket>()
    front.on('message', (bytes, { address, port }) => {
      const name = `${address} ${port}`
      let back = behind.get(name)
      if (!back) {
        behind.set(name, (back = this.#socket()))
        back.on('message', (answer) =>
          this.#inBursts(() => this.#pass(answer, front, { address, port })),
        )
      }
      this.#pass(bytes, back, { address: '127.0.0.1', port: target })
    })
    front.bind(0, '127.0.0.1')
    await once(front, 'listening')
    return front.address().port
  }

  #inBursts(pass: () => void): void {
    const isFirst = this.#held.push(pass) === 1
    if (this.burstMs === 0) this.#deliver()
    else if (isFirst) setTimeout(() => this.#deliver(), this.burstMs)
  }

  #deliver(): void {
    for (const one of this.#held.splice(0)) one()
  }

  #pass(bytes: Buffer, by: Socket, to: Pick<RemoteInfo, 'address' | 'port'>): void {
    if (this.isOff) return
    this.#seed = (this.#seed * 16_807) % 2_147_483_647
    if (this.#seed % 100 < this.percentLost) return void this.lost++
    this.passed++
    if (this.#sockets.has(by)) by.send(bytes, to.port, to.address, () => {})
  }

  #socket(): Socket {
    const socket = createSocket('udp4')
    this.#sockets.add(socket)
    socket.on('error', () => {})
    return socket
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const all = [...this.#sockets]
    this.#sockets.clear()
    for (const socket of all) socket.close()
  }
}
