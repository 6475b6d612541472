import http from 'node:http'
import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'

export interface SeenRequest {
  readonly method: string
  readonly path: string
  readonly headers: http.IncomingHttpHeaders
  body: string
}

type Interfered = 'cut' | 'hang' | { status: number; body: unknown }

/** What a proxy does instead of passing a request on. */
export type Interference = (request: SeenRequest) => Interfered | void | Promise<Interfered | void>

/** A network between a page and a server that can be bad in every way; no part of either. */
export interface Proxy extends AsyncDisposable {
  readonly url: string
  readonly requests: SeenRequest[]
  /** How many events a stream may bring before its connection is cut; Infinity for all. */
  eventsPerStream: number
  /** The same, with the connection left open and silent. */
  silentAfter: number
  isOffline: boolean
  interfere: Interference | undefined
  /** Where requests go. */
  target: string
  /** Cuts every connection that is open. */
  cutAll(): void
  /** Requests to paths that match. */
  to(pattern: RegExp, method?: string): SeenRequest[]
}

export async function proxyTo(target: string): Promise<Proxy> {
  const requests: SeenRequest[] = []
  const sockets = new Set<import('node:stream').Duplex>()
  const server = http.createServer((req, res) => {
    const seen: SeenRequest = {
      method: req.method!,
      path: req.url!,
      headers: req.headers,
      body: '',
    }
    if (proxy.isOffline) return void req.socket.destroy()
    requests.push(seen)
    const chunks: Buffer[] = []
    req.on('data', (chunk) => chunks.push(chunk))
    req.on('end', async () => {
      seen.body = Buffer.concat(chunks).toString()
      const instead = await proxy.interfere?.(seen)
      if (instead === 'cut') return void req.socket.destroy()
      if (instead === 'hang') return
      if (instead) {
        res.writeHead(instead.status, { 'content-type': 'application/json' })
        return void res.end(JSON.stringify(instead.body))
      }
      pass(seen, res)
    })
  })

  function pass({ method, path, headers, body }: SeenRequest, res: http.ServerResponse) {
    const { host: _, connection: __, 'content-length': ___, ...rest } = headers
    const onward = http.request(
      proxy.target + path,
      { method, headers: rest, agent: false },
      (answer) => {
        res.writeHead(answer.statusCode!, answer.headers)
        res.flushHeaders()
        if (!/event-stream/.test(answer.headers['content-type'] ?? '')) return void answer.pipe(res)
        let events = 0
        let isCut = proxy.eventsPerStream === 0
        let text = ''
        answer.setEncoding('utf8')
        answer.on('data', (chunk: string) => {
          text += chunk
          for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
            if (isCut || events >= proxy.silentAfter) continue
            isCut = ++events >= proxy.eventsPerStream
            res.write(text.slice(0, end + 2))
          }
          // A body that breaks in the same packet as its last chunk loses that chunk, and makes no progress.
          if (isCut) setTimeout(() => res.destroy(), 10)
        })
        answer.on('end', () => events < proxy.silentAfter && res.end())
        answer.on('error', () => res.destroy())
      },
    )
    onward.on('error', () => res.socket?.destroy())
    res.on('close', () => onward.destroy())
    onward.end(body)
  }

  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.on('upgrade', (req, socket, head) => {
    if (proxy.isOffline) return void socket.destroy()
    const { hostname, port } = new URL(proxy.target)
    const onward = connect(Number(port), hostname, () => {
      const lines = req.rawHeaders.reduce(
        (text, part, i) => text + part + (i % 2 ? '\r\n' : ': '),
        `GET ${req.url} HTTP/1.1\r\n`,
      )
      onward.write(`${lines}\r\n`)
      onward.write(head)
      onward.pipe(socket).pipe(onward)
    })
    for (const end of [onward, socket]) end.on('error', () => (onward.destroy(), socket.destroy()))
    socket.on('close', () => onward.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const proxy: Proxy = {
    url: `http://127.0.0.1:${port}`,
    target,
    requests,
    eventsPerStream: Infinity,
    silentAfter: Infinity,
    isOffline: false,
    interfere: undefined,
    cutAll: () => sockets.forEach((socket) => socket.destroy()),
    to: (pattern, method) =>
      requests.filter((one) => pattern.test(one.path) && (!method || one.method === method)),
    async [Symbol.asyncDispose]() {
      proxy.cutAll()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return proxy
}
