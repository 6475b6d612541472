import type { Log } from '#core'
import { ServerFault } from '../server/fault.ts'
import type { Rooms } from '../rooms/rooms.ts'
import { editOf, messageOf, piecesOf, type Place } from './words.ts'

/** What one answer is made with. */
export interface ReplyOptions {
  readonly rooms: Rooms
  readonly place: Place
  readonly log: Log
  readonly editMs: number
  readonly mostEdits: number
  /** The first message of the answer, where an earlier process has sent it. */
  readonly sentAs: string | undefined
  /** Whether an earlier process may have sent that message with other words. */
  readonly mayBeSent: boolean
  /** The transaction id of the first message: the same in every process. */
  readonly firstTxn: string
  /** The transaction id of the next send, which is in the database before it is used. */
  nextTxn(): Promise<string>
  /** Told of each event of the answer, the first message before the others: what is taken back has to find its edits, too. */
  sent(eventId: string): Promise<void>
}

/** When the first words are shown: after so long, or as soon as there are so many. */
const first = { ms: 700, characters: 80 }
/** A longer text goes on in a next message. */
const longestMessage = 12_000
const slowMs = 2_000
const slower = 1.5

/** An answer in a room: one message whose words grow by edits, few enough for the room to stay readable. */
export class Reply {
  readonly #options: ReplyOptions
  #text = ''
  #note = ''
  #eventId: string | undefined
  #shown = ''
  #edits = 0
  #intervalMs: number
  #isOver = false
  readonly #begunAt = performance.now()
  readonly #end = Promise.withResolvers<void>()
  #wake = Promise.withResolvers<void>()
  #going: Promise<void> | undefined

  constructor(options: ReplyOptions) {
    this.#options = options
    this.#intervalMs = options.editMs
    this.#eventId = options.sentAs
  }

  get text(): string {
    return this.#text
  }

  /** The answer's first message, once it is in the room. */
  get eventId(): string | undefined {
    return this.#eventId
  }

  /** Sends no more; resolves once nothing is on the way. */
  async drop(): Promise<void> {
    this.#isOver = true
    this.#end.resolve()
    await this.#going
  }

  /** More of the words. */
  add(text: string): void {
    this.#text += text
    this.#go()
  }

  /** Another process goes on: the text is only so long. */
  cut(length: number): void {
    this.#text = this.#text.slice(0, length)
  }

  /** What goes on beside the words; gone from the final text. */
  note(note: string): void {
    this.#note = note
    this.#go()
  }

  /** The last words. Resolves once they are in the room. */
  async finish(text: string): Promise<void> {
    await this.drop()
    const [head = '', ...more] = piecesOf(text, longestMessage)
    if (head.trim() === '' && this.#eventId === undefined) return
    if (this.#eventId === undefined) await this.#begin(head)
    if (this.#shown !== head) await this.#final(head)
    for (const piece of more) {
      const { rooms, place, nextTxn, sent } = this.#options
      const content = await messageOf(piece, place)
      await sent(await rooms.send(place.roomId, 'm.room.message', content, await nextTxn()))
    }
  }

  /** What the room should show now. */
  get #wanted(): string {
    const [head = ''] = piecesOf(this.#text, longestMessage)
    return this.#note === '' ? head : `${head}${head === '' ? '' : '\n\n'}_${this.#note}_`
  }

  #go(): void {
    this.#wake.resolve()
    this.#going ??= this.#show().catch((err: unknown) => {
      // Only what is on the way is lost: the final words are sent by themselves.
      this.#options.log.debug({ err: String(err) }, 'An edit was not sent')
    })
  }

  async #show(): Promise<void> {
    const { mostEdits } = this.#options
    if (this.#eventId === undefined) {
      while (!this.#isOver) {
        const left = first.ms - (performance.now() - this.#begunAt)
        if (this.#wanted.length >= first.characters || left <= 0) break
        await this.#orWoken(left)
      }
      if (this.#isOver || this.#wanted.trim() === '') return this.#again()
      await this.#begin(this.#wanted)
    }
    let at = performance.now()
    // The last one is for the final words.
    while (!this.#isOver && this.#edits < mostEdits - 1) {
      const left = this.#intervalMs - (performance.now() - at)
      if (left > 0) await within(left, this.#end.promise)
      if (this.#isOver) return
      const text = this.#wanted
      if (text === this.#shown) {
        await this.#orWoken(this.#intervalMs)
        continue
      }
      at = performance.now()
      await this.#edit(text)
      this.#intervalMs *= performance.now() - at > slowMs ? 2 : slower
    }
  }

  #again(): void {
    this.#going = undefined
  }

  /** Waits for more words, or for the end. */
  async #orWoken(ms: number): Promise<void> {
    await within(ms, Promise.race([this.#wake.promise, this.#end.promise]))
    this.#wake = Promise.withResolvers()
  }

  async #begin(text: string): Promise<void> {
    const { rooms, place, firstTxn, mayBeSent, sent } = this.#options
    const content = await messageOf(text, place)
    this.#eventId = await rooms.send(place.roomId, 'm.room.message', content, firstTxn)
    // The server answers a repeat with the first event, whose words may be others.
    this.#shown = mayBeSent ? '' : text
    await sent(this.#eventId)
  }

  async #edit(text: string): Promise<void> {
    const { rooms, place, nextTxn, sent } = this.#options
    if (this.#eventId === undefined) return
    const content = await editOf(text, this.#eventId)
    this.#edits++
    try {
      await sent(await rooms.sendOnce(place.roomId, 'm.room.message', content, await nextTxn()))
      this.#shown = text
    } catch (thrown) {
      if (!(thrown instanceof ServerFault) || thrown.kind !== 'limited') throw thrown
      this.#intervalMs *= 2
      await within(thrown.waitMs ?? 0, this.#end.promise)
    }
  }

  async #final(text: string): Promise<void> {
    const { rooms, place, nextTxn, sent } = this.#options
    if (this.#eventId === undefined) return
    const content = await editOf(text, this.#eventId)
    await sent(await rooms.send(place.roomId, 'm.room.message', content, await nextTxn()))
    this.#shown = text
  }
}

/** Waits for a promise, so long at most. */
async function within(ms: number, promise: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const over = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)))
  await Promise.race([promise, over])
  clearTimeout(timer)
}
