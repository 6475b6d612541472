import type { Conversation } from './talking/conversation.ts'
import { type CallRows, times } from './rows.ts'

/** What is limited: a call of this process. */
export interface Limited {
  readonly did: string
  readonly conversation: Conversation
  /** By the clock of this process, which nobody sets. */
  readonly openedAt: number
  connectedAt: number | undefined
  /** How long it may last, and until when by the time of day; undefined until it was answered. */
  lasting: { readonly ms: number; readonly until: number } | undefined
  /** The last minute has been announced. */
  isTold: boolean
}

/** How long before its end a call is told so. */
const lastMinuteMs = 60_000

/** Ends the calls whose page does not come, and those whose minutes are spent. */
export class Limits {
  readonly #rows: CallRows
  readonly #callMs: number
  readonly #areSeveral: boolean
  readonly #now: () => number

  constructor(
    rows: CallRows,
    env: { readonly CALLS_MINUTES: number; readonly CALLS_PER_USER: number },
    now: () => number,
  ) {
    this.#rows = rows
    this.#callMs = env.CALLS_MINUTES * 60_000
    this.#areSeveral = env.CALLS_PER_USER > 1
    this.#now = now
  }

  /** A call begins, which goes on with another one that lasted so many seconds, with so many minutes left of the day. */
  begin(live: Limited, secondsBefore: number, minutesLeft: number): void {
    const ownMs = this.#callMs - secondsBefore * 1_000
    const ms = Math.max(1_000, Math.min(ownMs, this.#rows.lastingMs(minutesLeft)))
    live.lasting = { ms, until: this.#now() + ms }
  }

  /** Looks at all calls. Asks nobody, so that a database that is away lets no call go on for ever. */
  look(calls: readonly Limited[]): void {
    for (const live of calls) {
      const { lasting, connectedAt, openedAt, conversation } = live
      if (!lasting) continue
      const openMs = performance.now() - openedAt
      // Whichever clock is further: the time of day stands still for no machine that slept.
      const leftMs = Math.min(lasting.ms - openMs, lasting.until - this.#now())
      if (connectedAt === undefined && openMs > times.pendingMs) conversation.end('lost')
      else if (leftMs <= 0) conversation.end('limit')
      else if (leftMs <= lastMinuteMs && lasting.ms > lastMinuteMs) tellLastMinute(live)
    }
  }

  /** Calls of one user at the same time, here or at other replicas, spend the minutes of the day together. */
  async lookTogether(calls: readonly Limited[]): Promise<void> {
    if (!this.#areSeveral) return
    for (const did of new Set(calls.map((live) => live.did))) {
      const underWay = (await this.#rows.underWay(did)).length
      if (underWay < 2) continue
      const leftMs = this.#rows.lastingMs(await this.#rows.minutesLeft(did)) / underWay
      for (const live of calls.filter((one) => one.did === did))
        if (leftMs <= 0) live.conversation.end('limit')
        else if (leftMs <= lastMinuteMs) tellLastMinute(live)
    }
  }
}

function tellLastMinute(live: Limited): void {
  if (live.isTold) return
  live.isTold = true
  live.conversation.minuteLeft()
}
