/** How fast the voice of the agent goes and comes back, in seconds. */
const fadeSeconds = 0.005

/** What is heard of the agent, and how loud both ends are. */
export class Sound {
  readonly #context: AudioContext
  readonly #gain: GainNode
  readonly #agent: AnalyserNode
  readonly #you: AnalyserNode
  /** Chromium lets no sound of a connection through Web Audio unless an element has the stream, too. */
  readonly #element = new Audio()
  #sources: { agent?: AudioNode; you?: AudioNode } = {}

  constructor(context: AudioContext) {
    this.#context = context
    this.#gain = context.createGain()
    this.#agent = context.createAnalyser()
    this.#you = context.createAnalyser()
    this.#gain.connect(this.#agent)
    this.#agent.connect(context.destination)
    this.#element.muted = true
  }

  /** Plays the agent. */
  play(stream: MediaStream): void {
    this.#element.srcObject = stream
    this.#sources.agent?.disconnect()
    this.#sources.agent = this.#context.createMediaStreamSource(stream)
    this.#sources.agent.connect(this.#gain)
    void this.#context.resume().catch(() => {})
  }

  /** Measures the person's own microphone. */
  watch(track: MediaStreamTrack | undefined): void {
    this.#sources.you?.disconnect()
    delete this.#sources.you
    if (!track) return
    this.#sources.you = this.#context.createMediaStreamSource(new MediaStream([track]))
    this.#sources.you.connect(this.#you)
  }

  /** Falls silent at once, or is heard again. */
  fade(to: 0 | 1): void {
    const { gain } = this.#gain
    const { currentTime } = this.#context
    gain.cancelScheduledValues(currentTime)
    gain.setValueAtTime(gain.value, currentTime)
    gain.linearRampToValueAtTime(to, currentTime + fadeSeconds)
  }

  levels(): { you: number; agent: number } {
    return { you: this.#sources.you ? loudness(this.#you) : 0, agent: loudness(this.#agent) }
  }

  close(): void {
    this.#element.srcObject = null
    void this.#context.close().catch(() => {})
  }
}

function loudness(analyser: AnalyserNode): number {
  const samples = new Float32Array(analyser.fftSize)
  analyser.getFloatTimeDomainData(samples)
  return Math.min(1, Math.sqrt(samples.reduce((sum, one) => sum + one * one, 0) / samples.length))
}
