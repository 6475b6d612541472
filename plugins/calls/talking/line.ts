import type { AgentFrame, CallState } from './frames.ts'

/** How long a text is that is shown. */
const longest = { caption: 8_000, notice: 1_000 }
/** How many frames wait for a page that is not there yet. */
const mostWaiting = 1_000

/** What the agent tells the page by the data channel. */
export class Line {
  readonly #tell: (text: string) => void
  /** What is said before the page has greeted. */
  #waiting: AgentFrame[] | undefined = []
  #state: CallState | undefined
  #isOver = false

  constructor(tell: (text: string) => void) {
    this.#tell = tell
  }

  get state(): CallState | undefined {
    return this.#state
  }

  send(frame: AgentFrame): void {
    if (this.#isOver) return
    if (!this.#waiting) this.#tell(JSON.stringify(frame))
    else if (this.#waiting.length < mostWaiting) this.#waiting.push(frame)
  }

  /** The page has greeted: it is told this first, and then what it has missed. */
  open(frame: AgentFrame): void {
    const missed = this.#waiting ?? []
    this.#waiting = undefined
    for (const one of [frame, ...missed]) this.send(one)
    if (this.#state === undefined) this.show('listening')
  }

  notice(code: string, text: string): void {
    this.send({ type: 'notice', code, text: text.slice(0, longest.notice) })
  }

  caption(id: string, who: 'you' | 'agent', text: string, isFinal = true): void {
    this.send({ type: 'caption', id, who, text: text.slice(0, longest.caption), isFinal })
  }

  /** How the call stands, where that is another way than before. */
  show(state: CallState): void {
    if (this.#state === state) return
    this.#state = state
    this.send({ type: 'state', state })
  }

  /** The last frame; nothing follows it. */
  end(by: string): void {
    // A page whose greeting is still under way hears of it, too.
    this.#waiting = undefined
    this.send({ type: 'ended', by })
    this.#isOver = true
  }
}
