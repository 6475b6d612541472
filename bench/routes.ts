/**
 * Measures the server CPU per request of a public plugin route with one query field and a JSON answer, beside the same
 * route on bare Koa and @koa/router with a zod parse. This process drives two server processes in alternating rounds.
 * Then 200,000 more requests show whether the heap grows.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { cpus } from 'node:os'
import Router from '@koa/router'
import Koa from 'koa'
import { z } from 'zod'
import { Http } from '../core/runtime/http/http.ts'
import type { ServedRoute } from '../core/runtime/http/routes/run-route.ts'
import type { Log, RouteContext } from '../core/plugin.ts'
import { beTarget, median, Target } from './support/target.ts'

const rounds = 21
const perRound = 10_000
const manyRequests = 200_000
/** How many more routes the runtime's server has, as in a large app; the bare server has only the measured route. */
const otherRoutes = 149

const input = z.object({ city: z.string().min(1) })
const reading = (city: string) => ({
  ok: true,
  city,
  temp_c: 21.4,
  units: 'celsius',
  conditions: 'clear',
  latitude: -15.4,
  longitude: 28.3,
})

type Kind = 'bare' | 'runtime'
async function serve(kind: Kind): Promise<void> {
  beTarget(await (kind === 'bare' ? listenBare() : listenRuntime()))
}

async function listenBare(): Promise<number> {
  const app = new Koa()
  const router = new Router()
  router.get('/weather/now', (ctx) => {
    const { city } = input.parse(ctx.query)
    ctx.body = reading(city)
  })
  app.use(router.routes())
  const server = createServer(app.callback()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

async function listenRuntime(): Promise<number> {
  const silent = () => undefined
  const log: Log = { debug: silent, info: silent, warn: silent, error: silent }
  const shared = { env: {}, self: {}, plugins: {}, log, fetch, db: undefined, state: undefined }
  const context: ServedRoute['context'] = (base) =>
    Object.assign(base, shared) as unknown as RouteContext
  const weather: ServedRoute = {
    key: 'GET /weather/now',
    owner: 'weather',
    context,
    route: { auth: 'public', input, run: (asked) => reading((asked as { city: string }).city) },
  }
  const others = Array.from({ length: otherRoutes }, (_, n): ServedRoute => {
    const key = `GET /part${n % 12}/things${n}/:id`
    return { key, owner: 'others', context, route: { auth: 'public', run: () => ({}) } }
  })
  const http = new Http({
    log,
    routes: [...others, weather],
    access: {
      authorize: () => Promise.reject(new Error('locked')),
      byPlugin: () => Promise.reject(new Error('No route here checks its callers itself.')),
      demand: () => undefined,
      optional: async () => undefined,
    },
    limits: { ratePerMinute: 1e9, trustProxy: false },
    cors: '*',
    version: '0',
  })
  return (await http.listen({ port: 0, host: '127.0.0.1' })).port
}

const request = 'GET /weather/now?city=Lusaka HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n'

async function measure(): Promise<void> {
  const bare = new Target(import.meta.filename, 'bare')
  const runtime = new Target(import.meta.filename, 'runtime')
  const targets = { bare, runtime }
  try {
    await Promise.all([bare.start(), runtime.start()])
    for (const target of [bare, runtime]) await target.round(request, perRound * 2)
    const taken: Record<Kind, number[]> = { bare: [], runtime: [] }
    for (let round = 0; round < rounds; round++) {
      const order: Kind[] = round % 2 === 0 ? ['bare', 'runtime'] : ['runtime', 'bare']
      for (const kind of order) taken[kind].push(await targets[kind].round(request, perRound))
    }
    const ratios = taken.runtime.map((ours, round) => ours / (taken.bare[round] ?? NaN))
    const before = await runtime.usage('gc')
    await runtime.round(request, manyRequests)
    const after = await runtime.usage('gc')

    const [cpu] = cpus()
    const version = (name: string): string =>
      JSON.parse(
        readFileSync(new URL(`../node_modules/${name}/package.json`, import.meta.url), 'utf8'),
      ).version
    print(`${cpu?.model} x ${cpus().length}, Node ${process.version}`)
    print(
      ['koa', '@koa/router', 'koa-ratelimit', 'zod']
        .map((name) => `${name} ${version(name)}`)
        .join(', '),
    )
    print(`${rounds} rounds of ${perRound} requests`)
    print(`bare Koa, one route:         ${median(taken.bare).toFixed(1)} µs CPU per request`)
    print(
      `runtime, ${otherRoutes + 1} routes:         ${median(taken.runtime).toFixed(1)} µs CPU per request`,
    )
    print(`ratio:                       ${median(ratios).toFixed(2)} (median of rounds)`)
    print(
      `heap before and after ${manyRequests} requests: ${mib(before.heap)} and ${mib(after.heap)} MiB`,
    )
  } finally {
    bare.process.kill()
    runtime.process.kill()
  }
}

const print = (line: string) => process.stdout.write(`${line}\n`)
const mib = (bytes: number) => (bytes / 1024 / 1024).toFixed(1)

const kind = process.argv[2]
if (kind === 'bare' || kind === 'runtime') await serve(kind)
else await measure()
