import type { Log } from '../../../plugin.ts'
import type { ChannelMessage } from './channels.ts'
import { type Ask, clockNow } from './hearers.ts'

/** How often the table is looked into. */
const pollMs = 250
/** How long a number may be missing before it counts as never used: messages are written by statements of their own. */
const gapMs = 5_000
const rowsPerLook = 1_000
/** How many messages may wait for a database that is slow or away; beyond that, the oldest are dropped. */
const mostWaiting = 10_000

/** Writes messages for the processes that look into the table. */
export class Outbox {
  readonly #ask: Ask
  readonly #log: Log
  #waiting: ChannelMessage[] = []
  #isWriting = false

  constructor(ask: Ask, log: Log) {
    this.#ask = ask
    this.#log = log
  }

  /** Has messages written, in one statement with what else came meanwhile. */
  add(messages: readonly ChannelMessage[]): void {
    this.#waiting.push(...messages)
    if (this.#waiting.length > mostWaiting) this.#waiting = this.#waiting.slice(-mostWaiting)
    if (!this.#isWriting) void this.#write()
  }

  async #write(): Promise<void> {
    this.#isWriting = true
    while (this.#waiting.length > 0) {
      const messages = this.#waiting.splice(0, rowsPerLook)
      try {
        await this.#ask(
          `insert into kernel_messages (channel, payload, at)
            select channel, payload, ${clockNow} from json_to_recordset($1::json) as m(channel text, payload text)`,
          [JSON.stringify(messages)],
        )
      } catch (err) {
        this.#log.debug({ err }, 'Processes that look into the table of messages were not told')
      }
    }
    this.#isWriting = false
  }
}

type MessageRow = ChannelMessage & { readonly id: number }

/** Looks into the table of messages, again and again. */
export class Polling {
  readonly #ask: Ask
  readonly #log: Log
  readonly #onMessage: (message: ChannelMessage) => void
  readonly #onGap: () => void
  readonly #timer: NodeJS.Timeout
  /** Every number up to this one was seen, or is missing. Undefined while it is not known where to begin. */
  #low: number | undefined
  /** The numbers above `#low` that were seen, each with the time: a smaller number may become visible later. */
  readonly #seen = new Map<number, number>()
  #isLooking = false
  #isClosed = false

  constructor(ask: Ask, log: Log, onMessage: (message: ChannelMessage) => void, onGap: () => void) {
    this.#ask = ask
    this.#log = log
    this.#onMessage = onMessage
    this.#onGap = onGap
    this.#timer = setInterval(() => void this.#look(), pollMs).unref()
  }

  /** Resolves once nothing that is written from now on is missed. */
  async begin(): Promise<void> {
    const [row] = await this.#ask<{ id: number }>(
      'select coalesce(max(id), 0) as id from kernel_messages',
    )
    this.#low = row?.id ?? 0
    this.#seen.clear()
  }

  close(): void {
    this.#isClosed = true
    clearInterval(this.#timer)
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return
    this.#isLooking = true
    try {
      if (this.#low === undefined) {
        await this.begin()
        this.#onGap()
      }
      const rows = await this.#ask<MessageRow>(
        'select id, channel, payload from kernel_messages where id > $1 order by id limit $2',
        [this.#low, rowsPerLook],
      )
      if (!this.#isClosed) this.#take(rows)
    } catch (err) {
      // After a crash of the database the numbers may have begun anew.
      this.#low = undefined
      this.#log.debug({ err }, 'The table of messages could not be read; trying again')
    }
    this.#isLooking = false
  }

  #take(rows: readonly MessageRow[]): void {
    const now = performance.now()
    let isNew = false
    for (const row of rows) {
      if (this.#seen.has(row.id)) continue
      isNew = true
      this.#seen.set(row.id, now)
      this.#onMessage(row)
    }
    const mayPass = !isNew && rows.length === rowsPerLook
    for (const { id } of rows) {
      const at = this.#seen.get(id) ?? now
      const isNext = id === (this.#low ?? 0) + 1
      if (!isNext && !mayPass && now - at < gapMs) break
      this.#low = id
      this.#seen.delete(id)
    }
  }
}
