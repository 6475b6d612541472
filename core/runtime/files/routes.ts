import { z } from 'zod'
import { RuntimeError } from '../../errors.ts'
import type { AnyRoute, RouteContext } from '../../plugin.ts'
import { isUnchanged } from '../http/answer/etag.ts'
import { created } from '../http/answer/reply.ts'
import { routeOf } from '../http/routes/route-of.ts'
import type { Files } from './files.ts'
import { fileNameOf, fileTooLarge, mostFileBytes } from './limits.ts'
import { fileKindOf } from './media-type.ts'

/** The keys of the routes of files. */
export const fileRouteKeys = ['POST /files', 'GET /files/:id'] as const

const fileInput = z.object({ id: z.string().min(1).max(100) })

/** Takes files of users in, and gives them back to their owners. */
export function fileRoutes(files: Files): Record<(typeof fileRouteKeys)[number], AnyRoute> {
  return {
    'POST /files': {
      summary: 'Keeps a file, the body as it stands, to attach it to a message within a day.',
      answers: { 201: ['application/json'] },
      raw: true,
      body: { maxBytes: mostFileBytes },
      onInvalid: ([fault], ctx) => {
        const message = fault?.message ?? 'The body could not be read.'
        if (message.startsWith('The body is larger')) throw fileTooLarge(nameIn(ctx) ?? 'The file')
        throw new RuntimeError('BAD_REQUEST', message)
      },
      async run(_: unknown, ctx: RouteContext) {
        const { raw, koa } = ctx
        if (raw.length === 0)
          throw new RuntimeError('BAD_REQUEST', 'The body is empty, and a file is not.', {
            hint: 'Send the bytes of the file as the body, and its name in X-Filename.',
          })
        const name = nameIn(ctx)
        const kind = await fileKindOf(name ?? 'The file', raw, koa.get('Content-Type'))
        const named = name ?? `${kind.type}.${kind.ending}`
        const [kept] = await files.keep(didOf(ctx), [{ ...kind, name: named, body: raw }])
        if (!kept) throw new Error('A file was kept, and nothing came of it.')
        return created(`/files/${kept.fileId}`, kept)
      },
    },
    'GET /files/:id': routeOf({
      summary: 'The bytes of a file of the caller.',
      answers: { 200: ['*/*'], 304: [] },
      input: fileInput,
      async run({ id }, ctx) {
        const { koa } = ctx
        const found = await files.open(didOf(ctx), id)
        if (!found) throw unknownFile(id)
        const { file, body } = found
        const etag = `"${file.sha256}"`
        koa.set('ETag', etag)
        if (isUnchanged(koa.get('If-None-Match'), etag)) return new Response(null, { status: 304 })
        return new Response(new Uint8Array(body), {
          headers: {
            'Content-Type': file.mediaType,
            'Content-Disposition': `attachment; filename*=UTF-8''${encoded(file.name)}`,
            'Content-Security-Policy': "default-src 'none'; sandbox",
            'Cache-Control': 'private, no-cache',
          },
        })
      },
    }),
  }
}

/** The caller of a route of users. */
function didOf({ user }: RouteContext): string {
  if (user) return user.did
  throw new RuntimeError('UNAUTHORIZED', 'Files belong to users, and no user called.')
}

/** What a caller without such a file hears, whether another user has one of that name or not. */
export const unknownFile = (id: string): RuntimeError =>
  new RuntimeError('NOT_FOUND', `You have no file "${id.slice(0, 100)}".`, {
    hint: 'POST /files makes one. A file that no conversation refers to is kept for a day.',
  })

/** The name that came with a file: percent-encoded UTF-8, as a header takes ASCII only. */
function nameIn({ koa }: RouteContext): string | undefined {
  const given = koa.get('X-Filename')
  if (given === '') return undefined
  return fileNameOf(decoded(given)) || undefined
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** A name in the form of RFC 5987. */
const encoded = (name: string) =>
  encodeURIComponent(name).replace(
    /['()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  )
