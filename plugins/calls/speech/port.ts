/** What was understood of what somebody said. */
export interface Understood {
  readonly text: string
  readonly language?: string
}

/** One utterance on its way to being understood. */
export interface OpenUtterance {
  /** More of what is said: 16 kHz, one channel. */
  push(pcm: Int16Array): void
  /** The person has paused, so that it may be over; `goOn` follows where it is not. */
  pause?(): void
  goOn?(): void
  /** Nothing more comes. */
  end(): Promise<Understood>
  /** It was no utterance: nobody asks for its end. */
  drop?(): void
}

/** Turns speech into text. */
export interface Hearing {
  /** Who does it, as people are told: `espeak-ng`, `api.openai.com`. */
  readonly name: string
  /** `server`: this process or a program that it starts. `service`: somebody else. */
  readonly where: 'server' | 'service'
  open(options: {
    readonly language?: string
    /** Called with what is understood so far. */
    partial(text: string): void
    readonly signal: AbortSignal
  }): OpenUtterance
}

/** A piece of speech: one channel. */
export interface Spoken {
  readonly rate: number
  readonly pcm: Int16Array
}

/** Turns text into speech. */
export interface Voice {
  readonly name: string
  readonly where: 'server' | 'service'
  readonly voices?: readonly string[]
  speak(
    text: string,
    options: { readonly voice?: string; readonly language?: string; readonly signal: AbortSignal },
  ): AsyncIterable<Spoken>
}
