export const frameMs = 20
/** A timer that comes late sends at most so many frames at once. */
const mostAtOnce = 10
/** Calls send in the same milliseconds, so that one timer wakes the thread for several. */
const gridMs = 5
/**
 * To wake a thread costs as much as half of what it then does for a call. While nothing is said, nothing is lost where a frame of silence
 * waits for a packet of the page, which wakes the thread anyway: `waitMs` at most, and only while those packets come one after the
 * other (`gapMs`) and have for a while (`steadyMs`). Behind a sound its silence comes in time (`behindMs`): a page without a packet
 * says the end of the sound again.
 */
const quiet = { waitMs: 60, gapMs: 35, steadyMs: 1_000, behindMs: 500 }
/** Packets of the page come in the middle between two frames of ours, so that one goes with each. So much of the way is made up at each. */
const following = 0.02

/** What sends in time. */
export interface PaceOptions {
  send(): void
  /** Whether something is to be heard: its frames go by the clock alone. */
  isHeard(): boolean
  /** Looks after the rest, each time that the clock wakes. */
  looked(at: number): void
  /** So many frames are late by more than their own length. */
  late(frames: number): void
}

/** The clock by which frames are sent: each 20 ms. A late timer makes up for it. */
export class Pace {
  readonly #options: PaceOptions
  #timer: NodeJS.Timeout | undefined
  #isStopped = false
  #isWaiting = false
  #from = 0
  #frames = 0
  #cameAt = 0
  #unsteadyAt = 0
  #heardAt = 0

  constructor(options: PaceOptions) {
    this.#options = options
  }

  get isRunning(): boolean {
    return this.#timer !== undefined
  }

  start(): void {
    const at = performance.now()
    this.#unsteadyAt = at
    this.#heardAt = at
    this.#from = Math.ceil(at / gridMs) * gridMs
    this.#wake(at)
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  /** A packet of sound came. */
  came(at: number): void {
    if (!this.#timer || this.#isStopped) return
    if (at - this.#cameAt > quiet.gapMs) this.#unsteadyAt = at
    this.#cameAt = at
    if (!this.#isWaiting) return
    this.#from += (((at - this.#from) % frameMs) - frameMs / 2) * following
    this.#send(at)
  }

  /** Something is to be heard now: the next frame waits for nothing. */
  hurry(): void {
    this.#heardAt = performance.now()
    if (!this.#isWaiting || this.#isStopped) return
    clearTimeout(this.#timer)
    this.#wake(this.#heardAt)
  }

  #wake(at: number): void {
    this.#options.looked(at)
    if (this.#isStopped) return
    if (this.#options.isHeard()) this.#heardAt = at
    const mayWait = this.#mayWait(at)
    // What waits for the next packet goes on doing so: between two packets it would be early, and the next one late.
    if (!this.#isWaiting || !mayWait) this.#send(at)
    this.#isWaiting = mayWait
    const dueAt = this.#from + (this.#frames + 1) * frameMs + (this.#isWaiting ? quiet.waitMs : 0)
    const wake = () => this.#wake(performance.now())
    this.#timer = setTimeout(wake, Math.max(1, Math.ceil(dueAt - at)))
  }

  #mayWait(at: number): boolean {
    const { gapMs, steadyMs, behindMs } = quiet
    const isSteady = at - this.#cameAt < gapMs && at - this.#unsteadyAt > steadyMs
    return isSteady && at - this.#heardAt > behindMs
  }

  #send(at: number): void {
    const due = Math.floor((at - this.#from) / frameMs)
    const late = due - this.#frames - 1 - (this.#isWaiting ? quiet.waitMs / frameMs : 0)
    if (late > 0) this.#options.late(late)
    if (due - this.#frames > mostAtOnce) this.#frames = due - mostAtOnce
    for (; this.#frames < due; this.#frames++) this.#options.send()
  }
}
