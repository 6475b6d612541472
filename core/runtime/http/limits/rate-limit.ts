import ratelimit from 'koa-ratelimit'
import type { Redis } from 'ioredis'
import type { Context } from 'koa'
import { RuntimeError } from '../../../errors.ts'
import type { Log } from '../../../plugin.ts'
import { clientNetwork } from './client-address.ts'

/** Counts one request, and throws RATE_LIMITED when it is one too many for its address. */
export type Limit = (koa: Context) => Promise<void>

/** What a limit counts by, where it is not the address. */
interface Counting {
  of(koa: Context): string
  /** Names the counted things in the refusal: `calls of this DID`. */
  readonly what: string
}

/**
 * Rate limits per client address (`koa.ip`), counted by koa-ratelimit: in memory, or in Redis where
 * replicas share them. While Redis is away each replica counts for itself, so that a lost Redis
 * neither stops the service nor lifts the limits.
 */
export class RateLimits {
  readonly #memory = new SweptMap()
  readonly #shared: SharedCounter | undefined

  constructor({ log, redis }: { readonly log: Log; readonly redis?: Redis }) {
    this.#shared = redis && new SharedCounter(redis, log)
  }

  /** A limit of its own: `max` requests per `perMs` from one address, or from what `by` says. */
  limit(name: string, max: number, perMs: number, by?: Counting): Limit {
    const namespace = `limit:${name}`
    // No X-RateLimit headers: what a client acts on is the Retry-After of a 429.
    const common = { max, duration: perMs, namespace, id: by?.of ?? id, disableHeader: true }
    const local = ratelimit({ ...common, driver: 'memory', db: this.#memory })
    const shared = this.#shared
    if (shared === undefined)
      return async (koa) => {
        await local(koa, pass)
        refuse(koa, by?.what)
      }
    // The driver defines one command on its client and calls it, nothing else.
    const db = shared as unknown as Redis
    const remote = ratelimit({ ...common, driver: 'redis', db })
    return async (koa) => {
      if (!(await shared.try(() => remote(koa, pass)))) await local(koa, pass)
      refuse(koa, by?.what)
    }
  }

  /** A limit of its own for what is no request: the function counts one for a name, or throws RATE_LIMITED. */
  counter(name: string, max: number, perMs: number, what: string): (who: string) => Promise<void> {
    const limit = this.limit(name, max, perMs, { of: ({ state }) => String(state.countedBy), what })
    return (who) => limit(new NoRequest(who) as unknown as Context)
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

/** Refuses by the verdict that koa-ratelimit leaves in the state, in the shape of every error. */
function refuse({ state }: Context, what = 'requests from this address'): void {
  if (state.rateLimit === undefined) return
  const { after } = state.rateLimit as { after: number }
  // koa-ratelimit rounds down; a client that waits as told must get in.
  const seconds = Math.max(after + 1, 1)
  throw new RuntimeError('RATE_LIMITED', `Too many ${what}.`, {
    hint: `Try again in ${seconds} seconds.`,
    headers: { 'Retry-After': String(seconds) },
  })
}

/** What the driver counts for one address. */
interface Counted {
  /** In seconds, by the clock that the driver started with. */
  readonly reset: number
  remaining: number
}

/**
 * The driver counts down and reads the count one tick later, when other requests of the same tick
 * have counted too: all of them would see the last one's count. So each request reads a copy, which
 * writes through.
 */
class Count implements Counted {
  readonly reset: number
  #remaining: number
  #shared: Counted

  constructor(shared: Counted) {
    this.reset = shared.reset
    this.#remaining = shared.remaining
    this.#shared = shared
  }

  get remaining(): number {
    return this.#remaining
  }

  set remaining(left: number) {
    this.#remaining = left
    this.#shared.remaining = left
  }
}

/** The counts in memory. The driver never drops one: a timer sweeps the expired, and past the cap the oldest makes room. */
export class SweptMap extends Map<string, Counted> {
  readonly #cap: number
  readonly #timer: NodeJS.Timeout

  constructor(cap = 200_000, everyMs = 30_000) {
    super()
    this.#cap = cap
    this.#timer = setInterval(() => this.#sweep(), everyMs).unref()
  }

  override get(key: string): Counted | undefined {
    const shared = super.get(key)
    return shared && new Count(shared)
  }

  override set(key: string, { reset, remaining }: Counted): this {
    if (this.size >= this.#cap && !this.has(key)) {
      const oldest = this.keys().next()
      if (!oldest.done) this.delete(oldest.value)
    }
    return super.set(key, { reset, remaining })
  }

  #sweep(): void {
    const now = (performance.timeOrigin + performance.now()) / 1000
    for (const [key, { reset }] of this) if (reset < now) this.delete(key)
  }

  close(): void {
    clearInterval(this.#timer)
    this.clear()
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
