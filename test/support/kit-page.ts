import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { build } from 'vite'

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
}

/** Who looks at the page, and at what. */
interface KitPageOptions {
  /** The user's 32 secret bytes in base64; without them the test shows the chat itself. */
  readonly seed?: string
  /** The conversation that is open. */
  readonly session?: string
  readonly isOther?: boolean
  /** `all`: the conversation is read as a whole. */
  readonly history?: 'all'
  /** Tokens live as long as the page. */
  readonly forgetful?: 'yes'
  /** Each part of the kit is replaced by one of the page's, which is a frame around it. */
  readonly framed?: 'yes'
}

/** A page that has the kit and the wallets, built as an app's own, at a name for which browsers have passkeys. */
export interface KitPage extends AsyncDisposable {
  /** The page's address. With `isOther` it is another origin of the same site, which shares no storage with the first. */
  address(server: string, oracle: string, more?: KitPageOptions): string
}

/** Builds the page and serves it; for a measurement as small as an app's. */
export async function kitPage({ minify = false } = {}): Promise<KitPage> {
  const outDir = await mkdtemp(join(tmpdir(), 'kit-page-'))
  await build({
    configFile: false,
    logLevel: 'silent',
    root: join(import.meta.dirname, '../client/kit-page'),
    resolve: { conditions: ['oracle-runtime-source', 'module', 'browser'] },
    build: { outDir, emptyOutDir: true, target: 'es2022', minify },
  })
  const servers = [1, 2].map(() =>
    createServer(async ({ url = '/' }, res) => {
      const { pathname } = new URL(url, 'http://localhost')
      const file = pathname === '/' ? '/index.html' : pathname
      const body = await readFile(join(outDir, file)).catch(() => undefined)
      res.writeHead(body ? 200 : 404, { 'content-type': types[extname(file)] ?? 'text/plain' })
      res.end(body)
    }),
  )
  for (const server of servers)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const ports = servers.map((server) => (server.address() as AddressInfo).port) // they listen on ports
  return {
    address: (server, oracle, { isOther, ...more } = {}) => {
      const query = new URLSearchParams({ server, oracle, ...more })
      return `http://localhost:${ports[isOther ? 1 : 0]}/?${query}`
    },
    async [Symbol.asyncDispose]() {
      for (const server of servers) {
        server.closeAllConnections()
        server.close()
      }
      await rm(outDir, { recursive: true, force: true })
    },
  }
}
