import { z } from 'zod'
import { RuntimeError } from '../../errors.ts'
import type { AnyRoute, Log, RouteContext } from '../../plugin.ts'
import type { AuthenticatedUser } from '../auth/user.ts'
import { reply } from '../http/answer/reply.ts'
import { routeOf } from '../http/routes/route-of.ts'
import { runtimeVersion } from '../base/version.ts'
import type { Erasures } from './erasures.ts'
import type { ExportedItem, UserData } from './user-data.ts'

/** The keys of the routes by which users see, take and erase what is kept of them. */
export const keptRouteKeys = [
  'GET /me',
  'GET /me/export',
  'DELETE /me',
  'GET /me/erasures/:id',
  'GET /erasures',
] as const

/** What the routes work on. */
export interface KeptRoutesOptions {
  readonly userData: UserData
  readonly erasures: Erasures
  readonly log: Log
  /** Counts an export, and throws where the caller had one within the hour. */
  countExport(koa: RouteContext['koa']): void | Promise<void>
}

const counts = z.record(z.string(), z.record(z.string(), z.number()))

const erasureShape = z.object({
  state: z.enum(['running', 'done']),
  createdAt: z.string(),
  endedAt: z.string().optional(),
  erased: counts,
  kept: z.array(
    z.object({
      plugin: z.string(),
      what: z.string(),
      why: z.string(),
      until: z.string().optional(),
    }),
  ),
  waitsFor: z.array(z.string()),
})

/** The routes by which users see, take and erase what is kept of them. */
export function keptRoutes(
  options: KeptRoutesOptions,
): Record<(typeof keptRouteKeys)[number], AnyRoute> {
  const { userData, erasures } = options
  return {
    'GET /me': {
      signed: true,
      summary: 'How much is kept of the caller, by plugin and kind.',
      limit: { max: 30, perMs: 60_000 },
      output: z.object({ did: z.string(), kept: counts }),
      async run(_, ctx) {
        const { did } = themselves(ctx)
        demandAll(userData)
        const tally = new Tally()
        for await (const each of userData.export(did, ctx.signal, true)) tally.add(each)
        return { did, kept: tally.counts }
      },
    },
    'GET /me/export': {
      signed: true,
      summary: 'Everything that is kept of the caller, a line each. The last line has the counts.',
      answers: { 200: ['application/x-ndjson'] },
      async run(_, ctx) {
        const { did } = themselves(ctx)
        demandAll(userData)
        await options.countExport(ctx.koa)
        return exported(options, did, ctx)
      },
    },
    'DELETE /me': routeOf({
      signed: true,
      summary: 'Erases everything of the caller, whose DID confirms it.',
      answers: { 202: ['application/json'] },
      input: z.object({
        confirm: z.string().max(2_048).describe('The DID of the caller'),
      }),
      output: z.object({ erasureId: z.string() }),
      async run({ confirm }, ctx) {
        const { did } = themselves(ctx)
        if (confirm !== did)
          throw new RuntimeError('INVALID_INPUT', '"confirm" is not the DID of the caller.', {
            details: [{ path: 'confirm', message: 'is not the DID of the caller' }],
            hint: 'Nothing was erased. Send DELETE /me?confirm=<your own DID>.',
          })
        const { erasureId } = await erasures.begin(did)
        ctx.audit({ erasure: erasureId })
        return reply(202, { erasureId }, { headers: { Location: `/me/erasures/${erasureId}` } })
      },
    }),
    'GET /me/erasures/:id': routeOf({
      auth: 'public',
      summary:
        'How far an erasure has come. Its id is the secret: its user may be unknown by then.',
      input: z.object({ id: z.string().max(64) }),
      output: erasureShape,
      async run({ id }) {
        const found = await erasures.find(id)
        if (found) return found
        throw new RuntimeError('NOT_FOUND', 'There is no such erasure.', {
          hint: 'DELETE /me answers with the id of the erasure that it begins.',
        })
      },
    }),
    'GET /erasures': routeOf({
      auth: 'operator',
      summary:
        'All erasures, a line each, by the hashes of their users: for a database restored from a backup.',
      answers: { 200: ['application/x-ndjson'] },
      input: z.object({ after: z.string().max(64).optional() }),
      run: ({ after }, { koa, signal }) => lines(koa, listed(erasures, after), signal),
    }),
  }
}

/** The caller, who comes with a key of their own: what others may do in somebody's name ends before this. */
function themselves({ user }: RouteContext): AuthenticatedUser {
  // A ucan route of the kernel: the user is the one that the kernel's own authentication made.
  const caller = user as AuthenticatedUser | undefined
  if (!caller) throw new RuntimeError('UNAUTHORIZED', 'No valid credential came.')
  if (caller.isSelf) return caller
  throw new RuntimeError('FORBIDDEN', 'A delegation does not reach what is kept of its user.', {
    hint: 'Sign the request with the key of the DID itself: who may talk in your name may neither take nor erase your data.',
  })
}

/** Refuses while a plugin is not at work: an answer without its part would look whole. */
function demandAll(userData: UserData): void {
  const [away] = userData.away
  if (away !== undefined)
    throw new RuntimeError(
      'PLUGIN_PENDING',
      `${away} is not ready, so nobody knows what it keeps.`,
      {
        headers: { 'Retry-After': '2' },
      },
    )
}

/** How many items there were, by plugin and kind. */
class Tally {
  readonly counts: Record<string, Record<string, number>> = {}

  add({ plugin, item: { kind } }: ExportedItem): void {
    const ofPlugin = (this.counts[plugin] ??= {})
    ofPlugin[kind] = (ofPlugin[kind] ?? 0) + 1
  }
}

function exported(
  { userData, log }: KeptRoutesOptions,
  did: string,
  { koa, signal, requestId }: RouteContext,
): Response {
  const at = new Date().toISOString()
  async function* whole() {
    const tally = new Tally()
    yield { kind: 'begin', did, at, runtime: runtimeVersion }
    try {
      for await (const each of userData.export(did, signal)) {
        tally.add(each)
        yield { ...each.item, plugin: each.plugin }
      }
    } catch (err) {
      // The head is out: only the missing last line can tell the reader.
      if (!signal.aborted) log.error({ err, requestId }, 'an export broke off')
      throw err
    }
    yield { kind: 'end', counts: tally.counts }
  }
  koa.set('Content-Disposition', `attachment; filename="export-${at.slice(0, 10)}.ndjson"`)
  return lines(koa, whole(), signal)
}

async function* listed(erasures: Erasures, after = '') {
  const page = 500
  for (let last = after; ;) {
    const found = await erasures.list(page, last)
    yield* found
    last = found.at(-1)?.id ?? ''
    if (found.length < page) return
  }
}

/** Values as lines of JSON, read as fast as the client takes them. */
function lines(
  koa: RouteContext['koa'],
  values: AsyncGenerator<unknown>,
  signal: AbortSignal,
): Response {
  koa.set('Cache-Control', 'no-store')
  const encoder = new TextEncoder()
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await values.next()
      if (done || signal.aborted) return controller.close()
      controller.enqueue(encoder.encode(`${JSON.stringify(value)}\n`))
    },
    async cancel() {
      await values.return(undefined)
    },
  })
  return new Response(body, { headers: { 'Content-Type': 'application/x-ndjson' } })
}
