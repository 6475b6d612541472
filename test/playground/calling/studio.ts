/** A word of a beeping voice, as a page has heard it: when it began on the clock of the page's sound, how long it was, how high. */
export interface HeardWord {
  readonly at: number
  readonly ms: number
  readonly hz: number
}

/** A studio in the page: what its microphone hears, and what its loudspeaker plays. */
export interface Studio {
  readonly peers: RTCPeerConnection[]
  /** When each connection stood, by the clock of the machine. */
  readonly connectedAt: number[]
  /** When each frame of the agent came, and when each of the page went, by the clock of the machine. */
  readonly frames: { readonly at: number; readonly text: string }[]
  readonly sent: { readonly at: number; readonly text: string }[]
  /** When the microphone was opened, and by how many samples the agent was heard so far. */
  blocks: { readonly at: number; readonly peak: number; readonly crossings: number }[]
  /** Plays sound into the microphone. Resolves to when it began, as soon as it has. */
  play(wav: string, volume?: number): Promise<number>
  /** Steady noise into the microphone. */
  noise(seconds: number, volume: number): Promise<void>
  /** What the loudspeaker plays comes back into the microphone, that much softer and later. */
  echo(volume: number, seconds: number): void
  now(): number
  /** The words of a beeping voice that were heard since then. */
  words(since: number): HeardWord[]
  /** The last moment before a silence of so many seconds at which something was heard after the given one. */
  silentFrom(since: number, seconds: number): number | undefined
  /** The silences of at least so many seconds with sound on both sides of them. */
  gaps(since: number, seconds: number): { readonly from: number; readonly seconds: number }[]
  /** When something was heard for the first time after the given moment. */
  heardFrom(since: number): number | undefined
}

/**
 * Runs in a page before its own scripts: the microphone is one that a test plays into, and what the page plays is measured by an
 * AnalyserNode, block after block of 5 ms without a gap. Both stand on the clock of the page's own sound.
 */
export function buildStudio(): void {
  const loud = 0.2
  const audible = 0.02
  const RealPeer = RTCPeerConnection
  const RealContext = AudioContext
  let context: AudioContext | undefined
  let microphone: MediaStreamAudioDestinationNode | undefined
  let heard: AnalyserNode | undefined

  const studio: Studio = {
    peers: [],
    connectedAt: [],
    frames: [],
    sent: [],
    blocks: [],
    async play(wav, volume = 1) {
      if (!context || !microphone) throw new Error('The microphone is not open.')
      const bytes = Uint8Array.from(atob(wav), (letter) => letter.charCodeAt(0))
      const buffer = await context.decodeAudioData(bytes.buffer)
      const source = context.createBufferSource()
      source.buffer = buffer
      const gain = context.createGain()
      gain.gain.value = volume
      source.connect(gain).connect(microphone)
      const at = context.currentTime + 0.02
      source.start(at)
      return at
    },
    async noise(seconds, volume) {
      if (!context || !microphone) throw new Error('The microphone is not open.')
      const buffer = context.createBuffer(1, context.sampleRate * 2, context.sampleRate)
      const samples = buffer.getChannelData(0)
      for (let i = 0; i < samples.length; i++) samples[i] = (Math.random() * 2 - 1) * volume
      const source = context.createBufferSource()
      source.buffer = buffer
      source.loop = true
      source.connect(microphone)
      source.start()
      source.stop(context.currentTime + seconds)
      await new Promise((resolve) => (source.onended = resolve))
    },
    echo(volume, seconds) {
      if (!context || !microphone || !heard) throw new Error('The microphone is not open.')
      const gain = context.createGain()
      gain.gain.value = volume
      const later = context.createDelay(seconds + 0.1)
      later.delayTime.value = seconds
      heard.connect(gain).connect(later).connect(microphone)
    },
    now: () => context?.currentTime ?? 0,
    words(since) {
      const found: { at: number; ms: number; hz: number }[] = []
      let open: { at: number; crossings: number; count: number } | undefined
      let quiet = 0
      for (const { at, peak, crossings } of studio.blocks) {
        if (at < since) continue
        if (peak > loud) {
          open ??= { at, crossings: 0, count: 0 }
          open.crossings += crossings
          open.count++
          quiet = 0
        } else if (open && ++quiet >= 4) {
          const ms = open.count * 5
          // What is shorter than a third of a word is its rest, or its beginning before it is begun anew.
          if (ms >= 60) found.push({ at: open.at, ms, hz: open.crossings / 2 / (ms / 1_000) })
          open = undefined
        }
      }
      return found
    },
    silentFrom(since, seconds) {
      let last: number | undefined
      for (const { at, peak } of studio.blocks) {
        if (at < since) continue
        if (peak > audible) last = at
        else if (at - (last ?? since) >= seconds) return last ?? since
      }
      return undefined
    },
    gaps(since, seconds) {
      const found: { from: number; seconds: number }[] = []
      let last: number | undefined
      for (const { at, peak } of studio.blocks) {
        if (at < since || peak <= audible) continue
        if (last !== undefined && at - last >= seconds)
          found.push({ from: last, seconds: at - last })
        last = at
      }
      return found
    },
    heardFrom: (since) => studio.blocks.find(({ at, peak }) => at > since && peak > audible)?.at,
  }
  ;(globalThis as unknown as { studio: Studio }).studio = studio

  /** Takes what has come since the last time. The analyser remembers more than half a second, so a busy page misses nothing. */
  const measure = (analyser: AnalyserNode) => {
    const { sampleRate } = analyser.context
    const samples = new Float32Array(analyser.fftSize)
    const perBlock = Math.round(sampleRate / 200)
    let readTo = analyser.context.currentTime
    const take = () => {
      const { currentTime, state } = analyser.context
      if (state === 'closed') return clearInterval(timer)
      const blocks = Math.min(
        Math.floor(((currentTime - readTo) * sampleRate) / perBlock),
        Math.floor(samples.length / perBlock),
      )
      if (blocks < 1) return
      analyser.getFloatTimeDomainData(samples)
      // Of what came since, the newest part that is not yet a whole block waits for the next time.
      const rest = Math.round((currentTime - readTo) * sampleRate) - blocks * perBlock
      const kept = Math.max(0, Math.min(rest, samples.length - blocks * perBlock))
      const from = samples.length - kept - blocks * perBlock
      const began = currentTime - (kept + blocks * perBlock) / sampleRate
      for (let block = 0; block < blocks; block++) {
        let peak = 0
        let crossings = 0
        for (let i = from + block * perBlock, end = i + perBlock; i < end; i++) {
          const sample = samples[i] ?? 0
          peak = Math.max(peak, Math.abs(sample))
          if (sample < 0 !== (samples[i - 1] ?? 0) < 0) crossings++
        }
        studio.blocks.push({ at: began + (block * perBlock) / sampleRate, peak, crossings })
      }
      readTo = began + (blocks * perBlock) / sampleRate
    }
    const timer = setInterval(take, 10)
  }

  globalThis.AudioContext = class extends RealContext {
    constructor(options?: AudioContextOptions) {
      super(options)
      context = this
      microphone = this.createMediaStreamDestination()
      // A microphone gives sound all the time, however quiet it is.
      const quiet = this.createConstantSource()
      quiet.offset.value = 1e-5
      quiet.connect(microphone)
      quiet.start()
    }
  }
  const connect = AudioNode.prototype.connect as (...to: unknown[]) => unknown
  AudioNode.prototype.connect = function (this: AudioNode, ...to: unknown[]) {
    if (to[0] instanceof AudioDestinationNode) {
      heard = this.context.createAnalyser()
      heard.fftSize = 32_768
      connect.call(this, heard)
      measure(heard)
    }
    return connect.apply(this, to)
  } as typeof AudioNode.prototype.connect

  globalThis.RTCPeerConnection = class extends RealPeer {
    constructor(configuration?: RTCConfiguration) {
      super(configuration)
      studio.peers.push(this)
      this.addEventListener('connectionstatechange', () => {
        if (this.connectionState === 'connected') studio.connectedAt.push(Date.now())
      })
    }
    override createDataChannel(label: string, init?: RTCDataChannelInit): RTCDataChannel {
      const channel = super.createDataChannel(label, init)
      channel.addEventListener('message', ({ data }) =>
        studio.frames.push({ at: Date.now(), text: String(data) }),
      )
      const send = channel.send.bind(channel) as (data: string) => void
      channel.send = (data: unknown) => {
        studio.sent.push({ at: Date.now(), text: String(data) })
        send(String(data))
      }
      return channel
    }
  }
  const { mediaDevices } = navigator
  const open = mediaDevices.getUserMedia.bind(mediaDevices)
  mediaDevices.getUserMedia = async (wanted) => {
    if (!wanted?.audio || !microphone) return open(wanted)
    return microphone.stream.clone()
  }
}
