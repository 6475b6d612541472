import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { extname, join } from 'node:path'
import type { WebModule } from '#core'
import type { Page } from './built-page.ts'
import { codings, codingsFor } from './coding.ts'

const html = 'text/html; charset=utf-8'
const types: Record<string, string> = {
  '.html': html,
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/** The page loads nothing from elsewhere and runs nothing inline, so the text of a model can never run as a script. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "connect-src 'self' ws: wss:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const waiting = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Playground</title>
<meta http-equiv="refresh" content="1"><p role="status">The playground is being built. This page comes back by itself.</p></html>`

/** Serves the built files below `/playground`. The names of assets contain a digest, so browsers revalidate only the page. */
export function servePage(page: Page): WebModule {
  return async (ctx, next) => {
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') return next()
    if (ctx.path === '/playground') return ctx.redirect('/playground/')
    const path = ctx.path.slice('/playground/'.length) || 'index.html'
    const type = types[extname(path)]
    if (!type || !/^(assets\/)?[\w.-]+$/.test(path) || path.includes('..')) return next()

    ctx.set('X-Content-Type-Options', 'nosniff')
    ctx.set('Referrer-Policy', 'no-referrer')
    ctx.set('Content-Security-Policy', policy)
    const found = await smallest(join(page.directory, path), ctx.get('Accept-Encoding'))
    if (found) {
      const { file, facts, coding } = found
      ctx.vary('Accept-Encoding')
      if (coding) ctx.set('Content-Encoding', coding)
      ctx.set(
        'Cache-Control',
        path.startsWith('assets/') ? 'public, max-age=31536000, immutable' : 'no-cache',
      )
      const version = `${facts.size.toString(36)}-${Math.trunc(facts.mtimeMs).toString(36)}`
      ctx.set('ETag', `"${version}${coding ? `-${coding}` : ''}"`)
      ctx.status = 200
      ctx.type = type
      if (ctx.fresh) return void (ctx.status = 304)
      ctx.length = facts.size
      ctx.body = createReadStream(file)
      return
    }
    if (path !== 'index.html') return next()
    ctx.status = 503
    ctx.type = html
    ctx.set('Cache-Control', 'no-store')
    ctx.set('Retry-After', '1')
    ctx.body = page.fault
      ? `<!doctype html><html lang="en"><meta charset="utf-8"><title>Playground</title><p>${escaped(page.fault)}</p></html>`
      : waiting
  }
}

/** The file as the client takes it with the fewest bytes; undefined where there is no such file. */
async function smallest(path: string, accepted: string) {
  const plain = await stat(path).catch(() => undefined)
  if (!plain?.isFile()) return undefined
  for (const coding of codingsFor(accepted)) {
    const file = path + codings[coding]
    const facts = await stat(file).catch(() => undefined)
    if (facts?.isFile()) return { file, facts, coding }
  }
  return { file: path, facts: plain, coding: undefined }
}

const escaped = (text: string) => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`)
