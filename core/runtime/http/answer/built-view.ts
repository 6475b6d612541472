import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { brotliCompress, gzip } from 'node:zlib'
import type { WebModule } from '../../../plugin.ts'
import { isUnchanged } from './etag.ts'

type Coding = 'br' | 'gzip' | 'identity'

interface Built {
  readonly bodies: Readonly<Record<Coding, Buffer>>
  readonly digest: string
}

/**
 * Serves the view that `npm run build:view` has built, as a module of `web`: the one path that `views` names, with an ETag, and
 * compressed for a browser that takes that. Every other path is left alone, and so is this one until the file is there. The file
 * is read once.
 */
export function builtView(path: string, file: URL): WebModule {
  let known: Promise<Built> | undefined
  return async (ctx, next) => {
    if (ctx.path !== path || (ctx.method !== 'GET' && ctx.method !== 'HEAD')) return next()
    known ??= read(file).catch((error: unknown) => {
      known = undefined // the file may be built while the server runs
      throw error
    })
    const built = await known.catch(() => undefined)
    if (!built) return next()
    const coding = codingFor(ctx.acceptsEncodings('br', 'gzip', 'identity'))
    const etag = `"${built.digest}${coding === 'identity' ? '' : `-${coding}`}"`
    ctx.vary('Accept-Encoding')
    ctx.set('Cache-Control', 'no-cache')
    ctx.set('ETag', etag)
    ctx.status = 200
    ctx.type = 'text/javascript; charset=utf-8'
    if (isUnchanged(ctx.get('If-None-Match'), etag)) return void (ctx.status = 304)
    if (coding !== 'identity') ctx.set('Content-Encoding', coding)
    ctx.body = built.bodies[coding]
  }
}

/** What was agreed on with the browser; a browser that takes nothing at all gets the file as it is. */
const codingFor = (agreed: string | false): Coding =>
  agreed === 'br' || agreed === 'gzip' ? agreed : 'identity'

const ways = { br: promisify(brotliCompress), gzip: promisify(gzip) } as const

async function read(file: URL): Promise<Built> {
  const identity = await readFile(file)
  const [br, zipped] = await Promise.all([ways.br(identity), ways.gzip(identity)])
  const digest = createHash('sha256').update(identity).digest('base64url').slice(0, 22)
  return { bodies: { identity, br, gzip: zipped }, digest }
}
