import { createDecoder, createEncoder } from 'libopus-wasm'
import {
  MediaStreamTrack,
  type RTCDataChannel,
  RTCPeerConnection,
  RTCRtpCodecParameters,
  RtpHeader,
  RtpPacket,
} from 'werift'
import { onTestFinished } from 'vitest'
import type { TestUser } from '#core/testing'
import { espeakVoice } from '../../plugins/calls/speech/command.ts'
import { Resampler } from '../../plugins/calls/speech/resample.ts'
import type { AgentFrame } from '../../plugins/calls/talking/frames.ts'

const frameSamples = 960

/** A page in a call: a real connection with sound both ways, without a browser. */
export class Page {
  readonly #connection = new RTCPeerConnection({
    codecs: {
      audio: [
        new RTCRtpCodecParameters({
          mimeType: 'audio/opus',
          clockRate: 48_000,
          channels: 2,
          payloadType: 111,
        }),
      ],
      video: [
        new RTCRtpCodecParameters({
          ...{ mimeType: 'video/VP8', clockRate: 90_000, payloadType: 96 },
          rtcpFeedback: [{ type: 'nack', parameter: 'pli' }],
        }),
      ],
    },
    iceAdditionalHostAddresses: ['127.0.0.1'],
    iceServers: [],
    iceUseIpv6: false,
    bundlePolicy: 'max-bundle',
  })
  readonly #channel: RTCDataChannel
  readonly #microphone = new MediaStreamTrack({ kind: 'audio' })
  readonly #camera = new MediaStreamTrack({ kind: 'video' })
  #beat: NodeJS.Timeout | undefined
  #sent = { number: 10, at: 1_000 }
  /** Everything that the agent said by the data channel. */
  readonly frames: AgentFrame[] = []
  /** How loud each packet of the agent was, and when it came. */
  readonly levels: { readonly at: number; readonly peak: number }[] = []

  constructor({ hasCamera = false } = {}) {
    this.#channel = this.#connection.createDataChannel('call')
    this.#channel.onMessage.subscribe((data) => this.frames.push(JSON.parse(String(data))))
    this.#connection.addTransceiver(this.#microphone, { direction: 'sendrecv' })
    if (hasCamera) this.#connection.addTransceiver(this.#camera, { direction: 'sendonly' })
    onTestFinished(() => this.#connection.close())
  }

  async offer(): Promise<string> {
    await this.#connection.setLocalDescription(await this.#connection.createOffer())
    while (this.#connection.iceGatheringState !== 'complete') await rest(5)
    return this.#connection.localDescription?.sdp ?? ''
  }

  async accept(sdp: string): Promise<void> {
    const decoder = await createDecoder({ sampleRate: 16_000, channels: 1 })
    this.#connection.onTrack.subscribe((track) => {
      track.onReceiveRtp.subscribe(({ payload }) => {
        const pcm = decoder.decode(payload)
        const peak = pcm.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0)
        this.levels.push({ at: performance.now(), peak })
      })
    })
    await this.#connection.setRemoteDescription({ type: 'answer', sdp })
    while (this.#channel.readyState !== 'open') await rest(5)
    this.send({ type: 'hello', v: 1 })
    this.#beat = setInterval(() => this.send({ type: 'beat' }), 1_000)
    onTestFinished(() => this.vanish())
  }

  /** Sends nothing any more, as a page does whose machine sleeps. */
  vanish(): void {
    clearInterval(this.#beat)
  }

  send(frame: unknown): void {
    if (this.#channel.readyState === 'open')
      this.#channel.send(typeof frame === 'string' ? frame : JSON.stringify(frame))
  }

  close(): Promise<void> {
    return this.#connection.close()
  }

  sendBytes(bytes: Buffer): void {
    this.#channel.send(bytes)
  }

  /** Sends a packet of sound as it is, so many samples after the one before. */
  async packet(
    payload: Uint8Array = new Uint8Array(0),
    sequenceNumber = 0,
    samples = frameSamples,
  ): Promise<void> {
    const header = new RtpHeader({
      ...{ payloadType: 111, sequenceNumber: sequenceNumber % 65_536 },
      timestamp: (this.#sent.at += samples),
    })
    this.#microphone.writeRtp(new RtpPacket(header, Buffer.from(payload)))
    await rest(1)
  }

  /** Sends a packet of the picture as it is. */
  picture(payload: Uint8Array, sequenceNumber: number, timestamp: number, marker: boolean): void {
    const header = new RtpHeader({ payloadType: 96, sequenceNumber, timestamp, marker })
    this.#camera.writeRtp(new RtpPacket(header, Buffer.from(payload)))
  }

  /** Speaks a text into the microphone, as fast as it is spoken, and then is silent for a while. */
  async speak(text: string, silentMs = 0, isLost = never): Promise<void> {
    const resampler = new Resampler()
    const sound: number[] = []
    const signal = AbortSignal.timeout(20_000)
    for await (const spoken of espeakVoice().speak(text, { signal }))
      for (const sample of resampler.push(spoken)) sound.push(sample)
    for (let i = 0; i < (silentMs / 1_000) * 48_000; i++) sound.push(0)
    await this.play(Int16Array.from(sound), isLost)
  }

  /** Plays sound of 48 kHz into the microphone. `isLost`: whether the network loses the packet of that number. */
  async play(sound: Int16Array, isLost: (nth: number) => boolean = never): Promise<void> {
    const encoder = await createEncoder({ sampleRate: 48_000, channels: 1 })
    const began = performance.now()
    for (let at = 0, i = 0; at < sound.length; at += frameSamples, i++) {
      const frame = new Int16Array(frameSamples)
      frame.set(sound.subarray(at, at + frameSamples))
      const header = new RtpHeader({
        payloadType: 111,
        sequenceNumber: (this.#sent.number = (this.#sent.number + 1) % 65_536),
        timestamp: (this.#sent.at += frameSamples),
      })
      const packet = new RtpPacket(header, Buffer.from(encoder.encode(frame)))
      if (!isLost(i)) this.#microphone.writeRtp(packet)
      await rest(began + i * 20 - performance.now())
    }
    encoder.free()
  }

  /** The frames of a type. */
  of<Type extends AgentFrame['type']>(type: Type): Extract<AgentFrame, { type: Type }>[] {
    return this.frames.filter(
      (frame): frame is Extract<AgentFrame, { type: Type }> => frame.type === type,
    )
  }

  /** What the agent's captions say, one after another. */
  get said(): string {
    return this.of('caption')
      .filter(({ who }) => who === 'agent')
      .map(({ text }) => text)
      .join('')
  }

  /** How many words of a beeping voice were heard so far. */
  get beeps(): number {
    let silentFrames = 2
    let words = 0
    for (const { peak } of this.levels) {
      if (peak > 1_500 && silentFrames >= 2) words++
      silentFrames = peak > 1_500 ? 0 : silentFrames + 1
    }
    return words
  }

  /** Whether the agent was heard in the last so many milliseconds. */
  isHeard(lastMs = 200): boolean {
    const since = performance.now() - lastMs
    return this.levels.some(({ at, peak }) => at >= since && peak > 500)
  }
}

/** A call of a user, connected. */
export async function call(
  user: TestUser,
  sessionId: string,
  more: Record<string, unknown> = {},
): Promise<{ readonly page: Page; readonly callId: string; readonly answer: Record<string, any> }> {
  const page = new Page({ hasCamera: more.callType === 'video' })
  const sdp = await page.offer()
  const { status, body } = await user.post('/calls', { sessionId, callType: 'audio', sdp, ...more })
  if (status !== 201) throw new Error(`${status} ${JSON.stringify(body)}`)
  await page.accept(body.sdp)
  return { page, callId: body.callId, answer: body }
}

const never = (_: number) => false
const rest = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, Math.max(ms, 0)))
