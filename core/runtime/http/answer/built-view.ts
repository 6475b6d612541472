import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { WebModule } from '../../../plugin.ts'
import { isUnchanged } from './etag.ts'

interface Built {
  readonly body: Buffer
  readonly etag: string
}

/**
 * Serves the view that `npm run build:view` has built, as a module of `web`: the one path that `views` names, with an ETag. Every
 * other path is left alone, and so is this one until the file is there. The file is read once.
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
    ctx.set('Cache-Control', 'no-cache')
    ctx.set('ETag', built.etag)
    ctx.status = 200
    ctx.type = 'text/javascript; charset=utf-8'
    if (isUnchanged(ctx.get('If-None-Match'), built.etag)) return void (ctx.status = 304)
    ctx.body = built.body
  }
}

async function read(file: URL): Promise<Built> {
  const body = await readFile(file)
  return { body, etag: `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"` }
}
