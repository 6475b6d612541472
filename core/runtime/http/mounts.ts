import type { Context } from 'koa'
import type { RuntimeError } from '../../errors.ts'
import type { WebEntry } from '../../plugin.ts'
import { underWay } from '../watchdog/under-way.ts'
import { ofStatus } from './answer/error-body.ts'
import { type Cors, corsOf, refuseForeign, setCors } from './cors.ts'
import type { Limit, RateLimits } from './limits/rate-limit.ts'
import type { Access } from './routes/access.ts'

/** A web module: a Koa middleware for `/mount` and everything below, with its own rules where it has any. */
export interface ServedMount extends WebEntry {
  readonly mount: string
  /** A plugin's name, or `the kernel`. */
  readonly owner: string
  /** The error with which the module answers while its owner serves nothing. */
  refusal?(): RuntimeError | undefined
}

/** What the web modules of a server share. */
interface MountsOptions {
  readonly access: Access
  readonly rateLimits: RateLimits
  /** The limit of every module that has none of its own. */
  readonly kernelLimit: Limit
  /** The CORS rule of every module that has none of its own. */
  readonly cors: Cors
  readonly publicOrigin: string | undefined
}

/** A web module with the rules that hold for it. */
interface Mount extends ServedMount {
  readonly rule: Cors
  /** The module's own limit; without one the kernel's counts. */
  readonly count: Limit | undefined
}

/** One request on its way from module to module. */
interface Visit {
  rule?: Cors
  isCounted: boolean
}

/**
 * The web modules of a server. Where no route matched, the modules at a path are asked, the deepest mount first; each may
 * pass on to the next with `next()`. '/' comes last, for paths that no route owns with any method.
 */
export class Mounts {
  readonly #options: MountsOptions
  readonly #mounts: readonly Mount[]

  constructor(web: readonly ServedMount[], options: MountsOptions) {
    this.#options = options
    this.#mounts = web
      .toSorted((a, b) => b.mount.length - a.mount.length)
      .map(({ limit, ...served }) => ({
        ...served,
        rule: corsOf(served, options.cors),
        count: limit && options.rateLimits.limit(`web ${served.mount}`, limit.max, limit.perMs),
      }))
  }

  /**
   * Counts the request and asks the modules at its path, each under its own limit and CORS rule. False: none of them answered.
   * `path` is empty where none may be asked; `routed`: a route owns the path.
   */
  async ask(koa: Context, path: string, routed: boolean): Promise<boolean> {
    const below = this.#below(path, routed)
    const visit: Visit = { isCounted: false }
    if (below.length > 0) return this.#pass(koa, below, (mount) => this.#enter(koa, mount, visit))
    setCors(this.#options.cors, koa.req, koa.res)
    await this.#options.kernelLimit(koa)
    return false
  }

  /** The CORS rule of the module that is asked first at a path. */
  ruleAt(path: string, routed: boolean): Cors | undefined {
    return this.#below(path, routed)[0]?.rule
  }

  /**
   * Asks the modules at a path that answer preflights themselves. Preflights are neither counted nor refused; for a module
   * that serves nothing just now the server answers them, so that a page can read why.
   */
  async askPreflight(koa: Context, path: string, routed: boolean): Promise<boolean> {
    const below = this.#below(path, routed).filter(
      (mount) => mount.handler.answersPreflights && !mount.refusal?.(),
    )
    return below.length > 0 && this.#pass(koa, below)
  }

  #below(path: string, routed: boolean): readonly Mount[] {
    if (path === '') return []
    return this.#mounts.filter(({ mount }) =>
      mount === '/' ? !routed : path === mount || path.startsWith(`${mount}/`),
    )
  }

  /** Each module that a request is passed on to applies its own rules; only the kernel's limit counts a request once. */
  async #enter(koa: Context, { rule, count }: Mount, visit: Visit): Promise<void> {
    const { req, res } = koa
    if (visit.rule !== rule) {
      res.removeHeader('Access-Control-Allow-Origin')
      setCors(rule, req, res)
      visit.rule = rule
    }
    refuseForeign(rule, req, this.#options.publicOrigin)
    if (count) return count(koa)
    if (visit.isCounted) return
    visit.isCounted = true
    await this.#options.kernelLimit(koa)
  }

  async #pass(
    koa: Context,
    below: readonly Mount[],
    enter?: (mount: Mount) => Promise<void>,
  ): Promise<boolean> {
    const { authorization, 'x-ucan-delegation': delegation } = koa.headers
    const hasCredential = authorization !== undefined || delegation !== undefined
    const ask = async (index: number): Promise<void> => {
      const asked = below[index]
      if (asked === undefined) return
      await enter?.(asked)
      const refusal = asked.refusal?.()
      if (refusal) throw refusal
      if (index === 0 && hasCredential) koa.user = await this.#options.access.optional(koa)
      koa.state.route = asked.mount
      koa.state.plugin = asked.owner
      underWay(`web ${asked.mount} of ${asked.owner}`)
      return asked.handler(koa, () => ask(index + 1))
    }
    await ask(0)
    if (koa.respond === false || koa.headerSent || (koa.body ?? undefined) !== undefined)
      return true
    if (koa.status === 404) return false
    if (koa.status >= 400) throw ofStatus(koa.status)
    return true
  }
}
