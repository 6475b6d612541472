import ratelimit from 'koa-ratelimit'
import type { Redis } from 'ioredis'
import type { Context } from 'koa'
import { RuntimeError } from '../../../errors.ts'
import type { Log } from '../../../plugin.ts'
import { clientNetwork } from './client-address.ts'

/** Counts one request, and throws RATE_LIMITED when it is one too many for its address. */
export type Limit = (koa: Context) => void | Promise<void>

/** What a limit counts by, where it is not the address. */
interface Counting {
  of(koa: Context): string
  /** Names the counted things in the refusal: `calls of this DID`. */
  readonly what: string
}

/**
 * Rate limits per client address (`koa.ip`): counted in memory, or by koa-ratelimit in Redis where replicas share them.
 * While Redis is away each replica counts for itself, so that a lost Redis neither stops the service nor lifts the limits.
 */
export class RateLimits {
  readonly #memory = new Counts()
  readonly #shared: SharedCounter | undefined

  constructor({ log, redis }: { readonly log: Log; readonly redis?: Redis }) {
    this.#shared = redis && new SharedCounter(redis, log)
  }

  /** A limit of its own: `max` requests per `perMs` from one address, or from what `by` says. */
  limit(name: string, max: number, perMs: number, by?: Counting): Limit {
    const namespace = `limit:${name}`
    const of = by?.of ?? id
    const local = (koa: Context) =>
      refuse(this.#memory.count(`${namespace}:${of(koa)}`, max, perMs), by?.what)
    const shared = this.#shared
    if (shared === undefined) return local
    // The driver defines one command on its client and calls it, nothing else.
    const db = shared as unknown as Redis
    // No X-RateLimit headers: what a client acts on is the Retry-After of a 429.
    const remote = ratelimit({
      ...{ driver: 'redis', db, namespace, max, duration: perMs },
      ...{ id: of, disableHeader: true },
    })
    return async (koa) => {
      if (!(await shared.try(() => remote(koa, pass)))) return local(koa)
      refuse((koa.state.rateLimit as { after: number } | undefined)?.after, by?.what)
    }
  }

  /** A limit of its own for what is no request: the function counts one for a name, or throws RATE_LIMITED. */
  counter(name: string, max: number, perMs: number, what: string): (who: string) => Promise<void> {
    const limit = this.limit(name, max, perMs, { of: ({ state }) => String(state.countedBy), what })
    return async (who) => limit(new NoRequest(who) as unknown as Context)
  }

  close(): void {
    this.#memory.close()
  }
}

/** Stands in for the context of a request: it has what koa-ratelimit reads and writes, and what it writes is dropped. */
class NoRequest {
  readonly state: Record<string, unknown>
  body: unknown
  status = 200

  constructor(countedBy: string) {
    this.state = { countedBy }
  }

  set(): void {}
}

const id = ({ ip }: Context) => clientNetwork(ip)
const passed = Promise.resolve()
const pass = () => passed

/** Refuses a request that may come again after so many seconds, rounded down, in the shape of every error. */
function refuse(after: number | undefined, what = 'requests from this address'): void {
  if (after === undefined) return
  // A client that waits as told must get in.
  const seconds = Math.max(after + 1, 1)
  throw new RuntimeError('RATE_LIMITED', `Too many ${what}.`, {
    hint: `Try again in ${seconds} seconds.`,
    headers: { 'Retry-After': String(seconds) },
  })
}

/** What is left of one limit for one name, and until when. */
interface Count {
  left: number
  readonly until: number
}

/** The counts in memory. A timer sweeps those whose time is over, and past the cap the oldest makes room. */
export class Counts {
  readonly #counts = new Map<string, Count>()
  readonly #cap: number
  readonly #timer: NodeJS.Timeout

  constructor(cap = 200_000, everyMs = 30_000) {
    this.#cap = cap
    this.#timer = setInterval(() => this.#sweep(), everyMs).unref()
  }

  /** How many names are remembered. */
  get size(): number {
    return this.#counts.size
  }

  /** Counts one. A number says that it is one too many, and in how many seconds, rounded down, there is room again. */
  count(name: string, max: number, perMs: number): number | undefined {
    const now = performance.now()
    const known = this.#counts.get(name)
    if (known === undefined || known.until < now) {
      if (known === undefined) this.#makeRoom()
      this.#counts.set(name, { left: max - 1, until: now + perMs })
      return max > 0 ? undefined : Math.floor(perMs / 1000)
    }
    return known.left-- > 0 ? undefined : Math.floor((known.until - now) / 1000)
  }

  close(): void {
    clearInterval(this.#timer)
    this.#counts.clear()
  }

  #makeRoom(): void {
    if (this.#counts.size < this.#cap) return
    const oldest = this.#counts.keys().next()
    if (!oldest.done) this.#counts.delete(oldest.value)
  }

  #sweep(): void {
    const now = performance.now()
    for (const [name, { until }] of this.#counts) if (until < now) this.#counts.delete(name)
  }
}

type Verdict = [remaining: number, resetSeconds: number, max: number]
type Command = (key: string, now: number, ms: number, max: number, peek: string) => Promise<Verdict>

const isCommand = (value: unknown): value is Command => typeof value === 'function'

/** Stands between the driver and Redis, and bounds how long an answer may take. */
class SharedCounter {
  static readonly patienceMs = 200
  static readonly pauseMs = 1000
  /** The driver's command, there once the driver has defined it. */
  ratelimiter: Command | undefined
  #redis: Redis
  #log: Log
  #away = false
  #nextTry = 0

  constructor(redis: Redis, log: Log) {
    this.#redis = redis
    this.#log = log
  }

  /** Called by the driver before its first count. */
  defineCommand(name: string, definition: { lua: string; numberOfKeys: number }): void {
    this.#redis.defineCommand(name, definition)
    // A defined command is a new method of the client, which its types cannot know.
    const command: unknown = Reflect.get(this.#redis, name)
    if (isCommand(command)) this.ratelimiter = (...args) => inTime(command.apply(this.#redis, args))
  }

  /** Counts in Redis. False means that Redis is away; after a pause this asks Redis again. */
  async try(count: () => Promise<unknown>): Promise<boolean> {
    const now = Date.now()
    if (this.#away && now < this.#nextTry) return false
    this.#nextTry = now + SharedCounter.pauseMs
    try {
      const { status } = this.#redis
      // A lazy client waits for its first command; any other client that is not ready would only queue the command.
      if (status !== 'ready' && status !== 'wait') throw new Error(`the connection is ${status}`)
      await count()
    } catch (error) {
      if (!this.#away)
        this.#log.warn({ err: error }, 'Redis is away: rate limits count per replica')
      this.#away = true
      return false
    }
    if (this.#away) this.#log.info('Redis is back: rate limits are shared again')
    this.#away = false
    return true
  }
}

async function inTime(verdict: Promise<Verdict>): Promise<Verdict> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error('no answer in time')), SharedCounter.patienceMs)
  try {
    const [remaining, reset, max] = await Promise.race([verdict, late])
    // The script rounds the moment down; a second more is never too early.
    return [remaining, reset + 1, max]
  } finally {
    clearTimeout(timer)
  }
}
