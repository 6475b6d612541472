import http from 'node:http'
import type { AddressInfo } from 'node:net'

/** A proxy in front of replicas: a request goes to the first one that takes it, beginning with the one that took the last. */
export async function failover(targets: readonly string[]) {
  let first = 0
  const pass = (req: http.IncomingMessage, res: http.ServerResponse, body: Buffer, tried = 0) => {
    const target = targets[first % targets.length] ?? ''
    const { host: _, connection: __, 'content-length': ___, ...headers } = req.headers
    const onward = http.request(
      target + req.url,
      { method: req.method, headers, agent: false },
      (answer) => {
        // A process that goes down takes no call any more; another one does.
        if (answer.statusCode === 503 && tried < targets.length) {
          answer.resume()
          first++
          return pass(req, res, body, tried + 1)
        }
        res.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(res)
        answer.on('error', () => res.destroy())
      },
    )
    onward.on('error', () => {
      if (res.headersSent || tried >= targets.length) return void res.destroy()
      first++
      pass(req, res, body, tried + 1)
    })
    res.on('close', () => onward.destroy())
    onward.end(body)
  }
  const server = http.createServer((req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => pass(req, res, Buffer.concat(chunks)))
    req.on('error', () => res.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
