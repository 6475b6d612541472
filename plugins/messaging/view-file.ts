import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { WebModule } from '#core'

// `/messaging/…` are routes, so the view stands beside them.
const path = '/messaging-page/view.js'
const file = new URL('built/view.js', import.meta.url)

let known: Promise<{ readonly body: Buffer; readonly etag: string }> | undefined

async function read() {
  const body = await readFile(file)
  return { body, etag: `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"` }
}

/** Serves the view that `npm run build:view plugins/messaging` has built, and leaves every other path alone. */
export const serveView: WebModule = async (ctx, next) => {
  if (ctx.path !== path || (ctx.method !== 'GET' && ctx.method !== 'HEAD')) return next()
  known ??= read().catch((error: unknown) => {
    known = undefined // the file may be built while the server runs
    throw error
  })
  const found = await known.catch(() => undefined)
  if (!found) return next()
  ctx.set('Cache-Control', 'no-cache')
  ctx.set('ETag', found.etag)
  ctx.status = 200
  ctx.type = 'text/javascript; charset=utf-8'
  if (ctx.fresh) return void (ctx.status = 304)
  ctx.body = found.body
}
