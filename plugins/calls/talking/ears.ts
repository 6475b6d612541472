import type { FromMedia } from '../media/messages.ts'
import type { Hearing, OpenUtterance } from '../speech/port.ts'
import { wordsOf } from './phrases.ts'

/** What ears hear with, and whom they tell. */
export interface EarsOptions {
  /** Without one the page understands speech, or nothing does. */
  readonly hearing: Hearing | undefined
  readonly language: string | undefined
  readonly signal: AbortSignal
  /** Whether the agent is speaking just now. */
  isSpeaking(): boolean
  /** Somebody begins to speak. */
  begun(): void
  partial(text: string): void
  understood(text: string, name: string, isOver: boolean): void
  /** What was heard has no words, and nothing else is being said: a cough, or a door. */
  nothing(): void
  failed(error: unknown): void
}

/** Takes what a person says to what understands it, one utterance after another. */
export class Ears {
  readonly #options: EarsOptions
  #open: OpenUtterance | undefined
  #number = 0
  /** The last utterance began while the agent spoke. */
  isOver = false

  constructor(options: EarsOptions) {
    this.#options = options
  }

  /** What the thread of sound tells of the person's voice. */
  take(message: FromMedia): void {
    if (message.type === 'begun') this.#begin()
    else if (message.type === 'sound') this.#open?.push(message.pcm)
    else if (message.type === 'paused') this.#open?.pause?.()
    else if (message.type === 'resumed') this.#open?.goOn?.()
    else if (message.type === 'ended') void this.#end(message.voicedMs)
  }

  #begin(): void {
    const { hearing, language, signal, isSpeaking, begun, partial } = this.#options
    this.isOver = isSpeaking()
    begun()
    this.#open = hearing?.open({ ...(language && { language }), partial, signal })
  }

  async #end(voicedMs: number): Promise<void> {
    const { isOver } = this
    const open = this.#open
    this.#open = undefined
    const { signal, understood, nothing, failed } = this.#options
    if (voicedMs === 0) {
      open?.drop?.()
      return nothing()
    }
    if (!open) return
    const name = `heard:${++this.#number}`
    try {
      const { text } = await open.end()
      if (signal.aborted) return
      if (wordsOf(text) !== '') understood(text, name, isOver)
      else if (!this.#open) nothing()
    } catch (error) {
      if (!signal.aborted) failed(error)
    }
  }
}
