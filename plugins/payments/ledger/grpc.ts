import { connect, type ClientHttp2Session } from 'node:http2'
import { type LedgerPort, LedgerStatus, grpc } from './port.ts'

/** How large an answer may be. */
const mostBytes = 4 * 1024 * 1024

/** A node of a ledger, asked by gRPC over one connection of HTTP/2 that is opened when it is needed. */
export class GrpcPort implements LedgerPort {
  readonly #origin: string
  readonly #callMs: number
  #session: ClientHttp2Session | undefined
  /** Every connection that is open, also those over which no more calls are made. */
  readonly #open = new Set<ClientHttp2Session>()

  /** `address` is host:port, `callMs` how long a call may take. */
  constructor(address: string, withTls: boolean, callMs = 8_000) {
    this.#origin = `${withTls ? 'https' : 'http'}://${address}`
    this.#callMs = callMs
  }

  /** Makes a unary call. Rejects with `LedgerStatus` where the node answers with a status, or not at all. */
  unary(path: string, request: Uint8Array): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      const session = this.#connected()
      const stream = session.request({
        ':method': 'POST',
        ':path': `/${path}`,
        'content-type': 'application/grpc',
        te: 'trailers',
      })
      const pieces: Buffer[] = []
      let size = 0
      let status: number | undefined
      let words = ''
      const fail = (message: string, code: number = grpc.unavailable) => {
        stream.close()
        reject(new LedgerStatus(code, message))
      }
      const note = (headers: Record<string, unknown>) => {
        if (headers['grpc-status'] !== undefined) status = Number(headers['grpc-status'])
        if (typeof headers['grpc-message'] === 'string') words = decoded(headers['grpc-message'])
      }
      const timer = setTimeout(() => {
        this.#leave(session)
        fail(`no answer within ${this.#callMs / 1000} s`)
      }, this.#callMs)
      stream.on('response', (headers) => {
        note(headers)
        if (headers[':status'] !== 200) fail(`HTTP status ${headers[':status']}`)
      })
      stream.on('trailers', note)
      stream.on('data', (piece: Buffer) => {
        size += piece.length
        if (size > mostBytes) fail('the answer is too large')
        else pieces.push(piece)
      })
      stream.on('error', (error) => fail(`there is no connection to it (${reasonOf(error)})`))
      stream.on('close', () => {
        clearTimeout(timer)
        if (status === undefined) return fail('the connection broke')
        if (status !== 0) return reject(new LedgerStatus(status, words || `status ${status}`))
        const frame = Buffer.concat(pieces)
        if (frame.length < 5 || frame[0] !== 0 || frame.readUInt32BE(1) !== frame.length - 5)
          return fail('the answer is no whole message')
        resolve(frame.subarray(5))
      })
      stream.end(framed(request))
    })
  }

  /** Ends the connections. */
  async close(): Promise<void> {
    for (const session of this.#open) session.destroy()
    this.#session = undefined
  }

  /**
   * Makes no more calls over a connection on which one was not answered: it may hang, and says so to nobody. Calls that are under
   * way have as long as a call may take.
   */
  #leave(session: ClientHttp2Session): void {
    if (this.#session === session) this.#session = undefined
    setTimeout(() => session.destroy(), this.#callMs).unref()
  }

  #connected(): ClientHttp2Session {
    if (this.#session && !this.#session.closed && !this.#session.destroyed) return this.#session
    const session = connect(this.#origin)
    const forget = () => {
      if (this.#session === session) this.#session = undefined
    }
    // The stream of each call tells the caller; the next call connects anew.
    session.on('error', forget)
    session.on('close', () => {
      this.#open.delete(session)
      forget()
    })
    session.on('goaway', forget)
    session.unref()
    this.#open.add(session)
    this.#session = session
    return session
  }
}

function framed(message: Uint8Array): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

/** Why there is no connection, without the address of the node: users read it. */
function reasonOf(error: Error): string {
  const { cause = error } = error
  return cause instanceof Error && 'code' in cause ? String(cause.code) : 'no reason was given'
}

function decoded(words: string): string {
  try {
    return decodeURIComponent(words).slice(0, 300)
  } catch {
    return words.slice(0, 300)
  }
}
