import {
  createDecoder,
  createEncoder,
  type OpusDecoderHandle,
  type OpusEncoderHandle,
} from 'libopus-wasm'
import {
  MediaStreamTrack,
  type RTCDataChannel,
  RTCPeerConnection,
  RTCRtpCodecParameters,
  type RTCRtpSender,
  type RtpHeader,
  type RtpPacket,
} from 'werift'
import { Camera } from './camera.ts'
import { Echo } from './echo.ts'
import type { FromMedia, Place, ToMedia } from './messages.ts'
import { Ordering } from './ordering.ts'
import { Playing } from './playing.ts'
import { Utterances } from './utterances.ts'
import { voiceDetector } from './voice-detector.ts'
import { HeardSound } from './wire/heard-sound.ts'
import { keepKeys } from './wire/keys.ts'
import { frameMs, Pace } from './wire/pace.ts'
import { payloadType, SoundPackets } from './wire/sound-packets.ts'

/** Nothing for so long: the other end is gone. */
const lostMs = 5_000
/** Nothing for so long: what is said now would not be heard, so it waits. A page beats every second. */
const awayMs = 2_000
/** What a page sends at most: frames of the data channel in ten seconds and bytes in each; packets and bytes of media a second. */
const most = { frames: 200, frameBytes: 16_384, packets: 400, bytes: 187_500, brokenMs: 2_000 }
/** How long the answer waits for its own candidates. */
const gatherMs = 3_000
/** 20 ms of what is heard. */
const heardSamples = 320
/**
 * A page that leaves out packets while it is quiet (DTX) says so by the times of those around them; from so long on it is no other
 * length of packets. Without any packet for so long nobody speaks: the microphone is off, or what is said does not arrive.
 */
const quiet = { leftOutMs: 200, mostMs: 60_000, afterMs: 1_500 }

type Told = FromMedia extends infer One
  ? One extends { call: string }
    ? Omit<One, 'call'>
    : never
  : never

/** What a peer is opened with. */
export interface PeerOptions {
  readonly sdp: string
  readonly place: Place
  readonly silenceMs: number
  tell(what: Told, moved?: ArrayBuffer[]): void
}

/** The agent's end of one call: sound both ways and the data channel. */
export class Peer {
  readonly #connection: RTCPeerConnection
  readonly #tell: PeerOptions['tell']
  readonly #packets: SoundPackets
  readonly #pace: Pace
  readonly #decoder: OpusDecoderHandle
  readonly #utterances: Utterances
  readonly #ordering = new Ordering()
  readonly #playing = new Playing()
  readonly #camera: Camera
  readonly #echo = new Echo()
  readonly #free: () => void
  #sender: RTCRtpSender | undefined
  #channel: RTCDataChannel | undefined
  #source: number | undefined
  /** When the last packet of sound came, or silence was taken in its place. */
  #soundAt = 0
  /** The number and the time in the newest packet of sound. */
  #newest = { number: -2, time: 0 }
  #seenAt = performance.now()
  #brokenSince: number | undefined
  #window = { from: 0, packets: 0, bytes: 0 }
  #frames = { from: 0, count: 0 }
  #isClosed = false

  /** Answers an offer. The answer is whole: no candidate follows it. */
  static async open(options: PeerOptions): Promise<{ peer: Peer; sdp: string }> {
    const [encoder, decoder, detector] = await Promise.all([
      createEncoder({
        sampleRate: 48_000,
        channels: 1,
        bitrate: 32_000,
        fec: true,
        complexity: 5,
        packetLossPercent: 5,
      }),
      createDecoder({ sampleRate: 16_000, channels: 1 }),
      voiceDetector(),
    ])
    const peer = new Peer(options, encoder, decoder, detector)
    try {
      return { peer, sdp: await peer.#answer(options) }
    } catch (error) {
      await peer.close()
      throw error
    }
  }

  private constructor(
    { place, silenceMs, tell }: PeerOptions,
    encoder: OpusEncoderHandle,
    decoder: OpusDecoderHandle,
    detector: Awaited<ReturnType<typeof voiceDetector>>,
  ) {
    this.#tell = tell
    this.#packets = new SoundPackets(encoder)
    this.#decoder = decoder
    this.#free = () => {
      encoder.free()
      decoder.free()
      detector.free()
    }
    const echo = this.#echo
    const withoutEcho = {
      isVoice(frame: Int16Array) {
        echo.heard(frame)
        return detector.isVoice(frame) && !echo.isOwn()
      },
    }
    const sound = new HeardSound((pcm) => tell({ type: 'sound', pcm }))
    this.#utterances = new Utterances(withoutEcho, silenceMs, {
      begun: () => tell({ type: 'begun' }),
      sound: (pcm) => sound.push(pcm),
      paused: () => tell({ type: sound.give('paused') }),
      resumed: () => tell({ type: sound.give('resumed') }),
      ended: (voicedMs) => tell({ type: sound.give('ended'), voicedMs }),
      over: () => tell({ type: 'over', ...this.#playing.place() }),
      sure: () => tell({ type: 'sure' }),
      passed: () => tell({ type: 'passed' }),
    })
    this.#pace = new Pace({
      send: () => this.#sendFrame(),
      isHeard: () => this.#playing.isSpeaking,
      looked: (at) => this.#look(at),
      late: (frames) => tell({ type: 'late', frames }),
    })
    this.#camera = new Camera({
      askFor: (source) => void this.#video?.receiver.sendRtcpPLI(source).catch(() => undefined),
      looked: (number, webp) => tell({ type: 'looked', number, ...(webp && { webp }) }),
    })
    this.#connection = new RTCPeerConnection({
      codecs: { audio: [opus], video: [vp8] },
      icePortRange: [...place.ports],
      ...(place.isLocal && { iceAdditionalHostAddresses: ['127.0.0.1'] }),
      iceServers: [],
      iceUseIpv6: false,
      bundlePolicy: 'max-bundle',
    })
    this.#connection.onDataChannel.subscribe((channel) => this.#opened(channel))
    this.#connection.onTrack.subscribe((track) => {
      track.onReceiveRtp.subscribe((packet) => this.#received(track.kind, packet))
    })
    this.#connection.connectionStateChange.subscribe((state) => {
      if (state === 'connected') this.#begin()
      if (state === 'failed' || state === 'closed') this.#lose()
    })
  }

  async #answer({ sdp, place }: PeerOptions): Promise<string> {
    const connection = this.#connection
    await connection.setRemoteDescription({ type: 'offer', sdp })
    const audio = connection.getTransceivers().find(({ kind }) => kind === 'audio')
    if (!audio) throw new Error('The offer has no audio.')
    this.#sender = audio.sender
    audio.sender.replaceTrack(new MediaStreamTrack({ kind: 'audio' }))
    audio.setDirection('sendrecv')
    this.#video?.setDirection('recvonly')
    await connection.setLocalDescription(await connection.createAnswer())
    const until = performance.now() + gatherMs
    while (connection.iceGatheringState !== 'complete' && performance.now() < until)
      await new Promise((resolve) => setTimeout(resolve, 5))
    const answer = connection.localDescription?.sdp
    if (!answer?.includes('a=candidate:')) throw new Error('No port was free for the call.')
    return place.address === undefined ? answer : onlyAt(answer, place.address)
  }

  get #video() {
    return this.#connection.getTransceivers().find(({ kind }) => kind === 'video')
  }

  do(message: Exclude<ToMedia, { type: 'open' }>): void {
    const playing = this.#playing
    if (message.type === 'send') this.#send(message.text)
    else if (message.type === 'play') this.#play(message)
    else if (message.type === 'hold') playing.isHeld = true
    else if (message.type === 'go') this.#goOn()
    else if (message.type === 'silence') this.#utterances.silenceMs = message.ms
    else if (message.type === 'look') this.#camera.look(message.number)
    else if (message.type === 'drop') {
      this.#tell({ type: 'dropped', ...playing.place(message.heard) })
      playing.drop()
    } else void this.close()
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#pace.stop()
    this.#camera.close()
    await this.#connection.close().catch(() => undefined)
    this.#free()
  }

  #send(text: string): void {
    if (this.#channel?.readyState === 'open') this.#channel.send(text)
  }

  #opened(channel: RTCDataChannel): void {
    if (channel.label !== 'call' || this.#channel) return this.#fail('a second data channel')
    this.#channel = channel
    channel.onMessage.subscribe((data) => {
      const at = performance.now()
      this.#seenAt = at
      if (at - this.#frames.from > 10_000) this.#frames = { from: at, count: 0 }
      if (++this.#frames.count > most.frames) return this.#fail('too many frames')
      if (typeof data !== 'string' || Buffer.byteLength(data) > most.frameBytes) return
      this.#tell({ type: 'frame', text: data })
    })
    channel.stateChange.subscribe((state) => {
      if (state === 'closed') this.#lose()
    })
  }

  #received(kind: string, packet: RtpPacket): void {
    if (this.#isClosed) return
    const at = performance.now()
    this.#seenAt = at
    if (at - this.#window.from > 1_000) this.#window = { from: at, packets: 0, bytes: 0 }
    this.#window.packets++
    this.#window.bytes += packet.payload.length
    if (this.#window.packets > most.packets || this.#window.bytes > most.bytes)
      return this.#fail('too much at once')
    const { ssrc, sequenceNumber, timestamp, marker: isLast } = packet.header
    if (kind !== 'audio') {
      const { payload } = packet
      return this.#camera.push(ssrc, { number: sequenceNumber, timestamp, isLast, payload })
    }
    this.#source ??= ssrc
    if (this.#source !== ssrc) return this.#fail('another source of sound')
    this.#hearLeftOut(packet.header, at)
    this.#soundAt = at
    this.#pace.came(at)
    for (const bytes of this.#ordering.push({ number: sequenceNumber, bytes: packet.payload }))
      this.#hear(bytes, at)
  }

  #hear(bytes: Uint8Array | undefined, at: number): void {
    if (bytes?.length === 0) return
    try {
      this.#utterances.isSpoken = this.#playing.isSpeaking
      this.#utterances.push(
        bytes ? this.#decoder.decode(bytes) : this.#decoder.decodePacketLoss(heardSamples),
      )
      this.#brokenSince = undefined
    } catch {
      this.#brokenSince ??= at
      if (at - this.#brokenSince > most.brokenMs) this.#fail('sound that is no Opus')
    }
  }

  #begin(): void {
    if (this.#pace.isRunning || this.#isClosed) return
    keepKeys(this.#connection)
    this.#tell({ type: 'connected' })
    this.#seenAt = performance.now()
    this.#pace.start()
  }

  #look(at: number): void {
    if (at - this.#seenAt > lostMs) return this.#lose()
    this.#hearNothing(at)
  }

  #play({ part, pcm, isLast }: Extract<ToMedia, { type: 'play' }>): void {
    this.#playing.add(part, pcm, isLast)
    this.#pace.hurry()
  }

  #goOn(): void {
    this.#playing.goOn()
    this.#pace.hurry()
  }

  /** Without packets nobody speaks: what was said before comes to its end. */
  #hearNothing(at: number): void {
    if (this.#source === undefined || at - this.#soundAt < quiet.afterMs) return
    this.#hearSilence(at - this.#soundAt)
    this.#soundAt = at
  }

  #hearSilence(ms: number): void {
    this.#utterances.isSpoken = this.#playing.isSpeaking
    this.#utterances.push(new Int16Array(Math.floor(ms / frameMs) * heardSamples))
  }

  /** What a page left out between two packets that follow each other was silence, as far as so much time has passed. */
  #hearLeftOut({ sequenceNumber, timestamp }: RtpHeader, at: number): void {
    const { number, time } = this.#newest
    this.#newest = { number: sequenceNumber, time: timestamp }
    // A microphone that gives nothing while it is quiet leaves no trace in the times: the sounds on both sides are two all the same.
    if (at - this.#soundAt >= quiet.leftOutMs) this.#utterances.paused(at - this.#soundAt)
    if (sequenceNumber !== (number + 1) % 65_536) return
    const ms = ((timestamp - time) >>> 0) / 48 - frameMs
    if (ms >= quiet.leftOutMs && ms <= quiet.mostMs)
      this.#hearSilence(Math.min(ms, at - this.#soundAt))
  }

  #sendFrame(): void {
    const isAway = performance.now() - this.#seenAt > awayMs
    const { pcm, ended } = isAway ? {} : this.#playing.next(this.#packets.time)
    this.#echo.sent(pcm)
    void this.#sender?.sendRtp(this.#packets.next(pcm)).catch(() => undefined)
    if (ended) this.#tell({ type: 'played', ...ended })
  }

  #lose(): void {
    if (this.#isClosed) return
    this.#tell({ type: 'lost', silentMs: performance.now() - this.#seenAt })
    void this.close()
  }

  #fail(reason: string): void {
    if (this.#isClosed) return
    this.#tell({ type: 'hostile', reason })
    void this.close()
  }
}

const opus = new RTCRtpCodecParameters({
  mimeType: 'audio/opus',
  clockRate: 48_000,
  channels: 2,
  payloadType,
  parameters: 'minptime=10;useinbandfec=1;stereo=0',
})
const vp8 = new RTCRtpCodecParameters({
  mimeType: 'video/VP8',
  clockRate: 90_000,
  rtcpFeedback: [{ type: 'nack', parameter: 'pli' }],
})

/** The answer with one address in it: that behind which the server stands, by the same ports. */
function onlyAt(sdp: string, address: string): string {
  const seen = new Set<string>()
  const lines = sdp.split(/\r?\n/).flatMap((line) => {
    const [name, component, transport, priority, , port, ...rest] = line.split(' ')
    if (!line.startsWith('a=candidate:'))
      return [line.startsWith('c=IN ') ? `c=IN IP4 ${address}` : line]
    if (seen.has(port ?? '')) return []
    seen.add(port ?? '')
    return [[name, component, transport, priority, address, port, ...rest].join(' ')]
  })
  return lines.join('\r\n')
}
