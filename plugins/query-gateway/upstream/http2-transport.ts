import { connect as connectPlain, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { Http2Connection } from '../http2/connection.ts'
import { encodeHeaders } from '../http2/hpack.ts'
import { CallError, grpc } from '../statuses.ts'
import { MessageStream, onlyMessage } from './answers.ts'
import { type Upstream, UpstreamCall } from './call.ts'
import type { Call, StreamAnswer, Transport, UnaryAnswer } from './transport.ts'

/** The address of the upstream, and the limits for its answers. */
export interface Http2Options {
  /** The address of the upstream, as host:port. */
  readonly upstream: string
  readonly tls: boolean
  /** The certificates, as PEM, of the authorities to trust instead of the system's. */
  readonly ca?: string
  readonly maxMessageBytes?: number
  /** How long an upstream that has missed a deadline may take to answer a ping before the gateway closes the connection. */
  readonly pingPatienceMs?: number
}

const keepAliveMs = 60_000

/** gRPC over one HTTP/2 connection, which the first call opens, and which a later call opens again after it broke. */
export class Http2Transport implements Transport, Upstream {
  readonly maxMessageBytes: number
  readonly pingPatienceMs: number
  readonly #address: string
  readonly #tls: boolean
  readonly #ca: string | undefined
  readonly #listeners: (() => void)[] = []
  /** The part of the header block that the last call of a path had but for its metadata, by the path. */
  readonly #fixedBlocks = new Map<string, { deadlineMs: number | undefined; block: Buffer }>()
  #current: Http2Connection | undefined
  #closed = false
  #wasThere = false

  constructor(options: Http2Options) {
    this.maxMessageBytes = options.maxMessageBytes ?? 16 * 1024 * 1024
    this.pingPatienceMs = options.pingPatienceMs ?? 5000
    this.#address = options.upstream
    this.#tls = options.tls
    this.#ca = options.ca
  }

  unary(call: Call): Promise<UnaryAnswer> {
    return onlyMessage((events) => UpstreamCall.open(this, call, this.#blockOf(call), events))
  }

  serverStream(call: Call): StreamAnswer {
    return new MessageStream((events) => UpstreamCall.open(this, call, this.#blockOf(call), events))
  }

  onReturn(listener: () => void): void {
    this.#listeners.push(listener)
  }

  close(): void {
    this.#closed = true
    this.#current?.destroy(new Error('the gateway is closing'))
  }

  /** The connection for new calls, opened again when the former connection takes no more calls. */
  connection(): Http2Connection {
    if (this.#closed) throw new CallError(grpc.unavailable, 'The gateway is closing.')
    if (this.#current?.usable) return this.#current
    const socket = this.#connect()
    // TCP keep-alive notices a peer that has vanished silently, even while only a quiet stream is open.
    socket.setKeepAlive(true, keepAliveMs)
    return (this.#current = new Http2Connection(socket, () => {
      if (this.#wasThere) for (const listener of this.#listeners) listener()
      this.#wasThere = true
    }))
  }

  #connect(): Socket {
    const colon = this.#address.lastIndexOf(':')
    const port = Number(this.#address.slice(colon + 1))
    const host = this.#address.slice(0, colon).replace(/^\[(.*)\]$/, '$1')
    if (!this.#tls) return connectPlain({ host, port })
    return connectTls({
      host,
      port,
      ALPNProtocols: ['h2'],
      ...(isIP(host) ? {} : { servername: host }),
      ...(this.#ca === undefined ? {} : { ca: this.#ca }),
    })
  }

  #blockOf({ path, deadlineMs, metadata }: Call): Buffer {
    let fixed = this.#fixedBlocks.get(path)
    // Nearly all calls have the deadline of the deployment.
    if (fixed === undefined || fixed.deadlineMs !== deadlineMs) {
      fixed = { deadlineMs, block: this.#fixedBlock(path, deadlineMs) }
      this.#fixedBlocks.set(path, fixed)
    }
    const own: [string, string][] = []
    for (const name in metadata)
      for (const value of [metadata[name] ?? []].flat()) own.push([name, value])
    return own.length === 0 ? fixed.block : Buffer.concat([fixed.block, encodeHeaders(own)])
  }

  #fixedBlock(path: string, deadlineMs: number | undefined): Buffer {
    return encodeHeaders([
      [':method', 'POST'],
      [':scheme', this.#tls ? 'https' : 'http'],
      [':path', path],
      [':authority', this.#address],
      ['content-type', 'application/grpc'],
      ['te', 'trailers'],
      ['user-agent', 'oracle-runtime'],
      ['grpc-accept-encoding', 'identity'],
      ...(deadlineMs === undefined
        ? []
        : ([['grpc-timeout', `${Math.min(Math.ceil(deadlineMs), 99_999_999)}m`]] as const)),
    ])
  }
}
