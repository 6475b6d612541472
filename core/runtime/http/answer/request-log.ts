import type { Context } from 'koa'
import type { RuntimeError } from '../../../errors.ts'
import { shareOf } from '../../telemetry/share.ts'
import { statusOf } from './error-body.ts'

/** Which requests leave a line, and what of the client stands in it. */
export interface RequestLogRules {
  /** `errors`: only what failed or was slow. */
  readonly mode: 'all' | 'errors' | 'off'
  /** The share of successes that leave a line, from 0 to 1. What failed or was slow always leaves one. */
  readonly sample: number
  readonly slowMs: number
  readonly showsAddresses: boolean
  /** Whether users stand there with their whole DID, and not with its end. */
  readonly showsDids: boolean
}

/** What the edge notes about a request in `koa.state` on its way. */
interface Noted {
  readonly requestId: string
  /** The key of the route, or where the web module is mounted; never the path or its query. */
  readonly route?: string
  readonly plugin?: string
  readonly isProbe?: boolean
  readonly who?: string
  /** The DID that a token proved, also where the request was refused then. */
  readonly caller?: string
  readonly code?: string
}

/** How many lines a second there may be: whoever floods the server must not fill its disk. */
const mostLinesASecond = 2_000

/** How much of a DID a line shows: enough to find all lines about a user, too little to say who the user is. */
const shownOfDid = 8

/** How long lines wait to be written together: a write for each would cost more than many a request. */
const togetherMs = 50

/** Writes one line about each request when the request ends: which route, who, with what outcome. Never what was said. */
export class RequestLog {
  readonly #write: (lines: readonly string[]) => void
  readonly #rules: RequestLogRules
  #second = 0
  #written = 0
  #leftOut = 0

  #waiting: string[] = []
  #timer: NodeJS.Timeout | undefined
  /** An exit that nobody announced must not lose lines. */
  readonly #atExit = () => this.#flush()

  constructor(write: (lines: readonly string[]) => void, rules: RequestLogRules) {
    this.#write = write
    this.#rules = rules
    process.on('exit', this.#atExit)
  }

  /** Writes what waits. */
  close(): void {
    this.#flush()
    process.off('exit', this.#atExit)
  }

  /** Bytes came that are no request. */
  unreadable(refusal: RuntimeError): void {
    if (this.#hasRoom()) this.#add({ status: statusOf(refusal), code: refusal.code })
  }

  /** A request has ended: its answer is out, its connection is gone, or its client has a socket now. */
  ended(koa: Context, status: number, ms?: number, bytes?: object): void {
    const { mode, sample, slowMs, showsAddresses } = this.#rules
    const { requestId, route, plugin, isProbe, code }: Noted = koa.state
    const hasFailed = status >= 400
    const isSlow = ms !== undefined && ms > slowMs && !isEventStream(koa)
    const isDue = mode === 'all' && !isProbe && (sample >= 1 || shareOf(requestId) < sample)
    if (!(hasFailed || isSlow || isDue) || !this.#hasRoom()) return
    const line = {
      requestId,
      method: koa.method,
      route,
      plugin,
      who: this.#who(koa),
      status,
      ...(hasFailed && { code }),
      ...(ms !== undefined && { ms: Math.round(ms * 10) / 10 }),
      ...bytes,
      ...(showsAddresses && { ip: koa.ip }),
    }
    this.#add(line)
  }

  #add(fields: object): void {
    const rest = JSON.stringify(fields).slice(1, -1)
    this.#waiting.push(`{"level":30,"time":${Date.now()},${rest},"msg":"request"}\n`)
    this.#timer ??= setTimeout(() => this.#flush(), togetherMs).unref()
  }

  #flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const lines = this.#waiting
    this.#waiting = []
    if (lines.length > 0) this.#write(lines)
  }

  #who({ state }: Context): string {
    const { who, caller }: Noted = state
    const isKnown = who !== undefined && who !== 'unknown'
    // Who was refused after the token was proven stands there with the DID that the token proved.
    const name = isKnown ? who : (caller ?? who ?? 'public')
    return name.startsWith('did:') && !this.#rules.showsDids ? name.slice(-shownOfDid) : name
  }

  /** Whether one more line may be written in this second. The first line of the next says how many were left out. */
  #hasRoom(): boolean {
    const second = Math.floor(performance.now() / 1000)
    if (second !== this.#second) {
      if (this.#leftOut > 0) this.#add({ leftOut: this.#leftOut })
      this.#second = second
      this.#written = 0
      this.#leftOut = 0
    }
    if (this.#written < mostLinesASecond) return ++this.#written > 0
    this.#leftOut++
    return false
  }
}

/** Whether an answer is an event stream, which is open as long as its reader likes. */
export const isEventStream = ({ res }: Context): boolean =>
  String(res.getHeader('Content-Type') ?? '').startsWith('text/event-stream')
