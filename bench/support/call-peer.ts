import { createDecoder, createEncoder } from 'libopus-wasm'
import {
  MediaStreamTrack,
  type RTCDataChannel,
  RTCPeerConnection,
  RTCRtpCodecParameters,
  RtpHeader,
  RtpPacket,
} from 'werift'

const frameSamples = 960
const frameMs = 20
const loud = 500

/** Sound as packets of 20 ms, encoded once for all peers. */
export async function packetsOf(sound: Int16Array): Promise<Uint8Array[]> {
  const encoder = await createEncoder({ sampleRate: 48_000, channels: 1 })
  const packets: Uint8Array[] = []
  for (let at = 0; at < sound.length; at += frameSamples) {
    const frame = new Int16Array(frameSamples)
    frame.set(sound.subarray(at, at + frameSamples))
    packets.push(Uint8Array.from(encoder.encode(frame)))
  }
  encoder.free()
  return packets
}

/** A page of a bench: sends packets into its microphone all the time, and knows when it last heard something. */
export class CallPeer {
  readonly #connection = new RTCPeerConnection({
    codecs: {
      audio: [
        new RTCRtpCodecParameters({
          ...{ mimeType: 'audio/opus', clockRate: 48_000, channels: 2, payloadType: 111 },
        }),
      ],
    },
    ...{ iceAdditionalHostAddresses: ['127.0.0.1'], iceServers: [], iceUseIpv6: false },
    bundlePolicy: 'max-bundle',
  })
  readonly #channel: RTCDataChannel
  readonly #microphone = new MediaStreamTrack({ kind: 'audio' })
  readonly #silence: Uint8Array
  #waiting: readonly Uint8Array[] = []
  #said: (() => void) | undefined
  #sent = { number: 1, at: 0, frames: 0, from: 0 }
  #timers: NodeJS.Timeout[] = []
  #heard: (() => void) | undefined
  /** When each packet of the agent came. */
  readonly #came: { readonly number: number; readonly at: number }[] = []

  constructor(silence: Uint8Array) {
    this.#silence = silence
    this.#channel = this.#connection.createDataChannel('call')
    this.#connection.addTransceiver(this.#microphone, { direction: 'sendrecv' })
  }

  /** Calls, by whoever posts the offer. */
  async call(post: (sdp: string) => Promise<string>): Promise<void> {
    const connection = this.#connection
    await connection.setLocalDescription(await connection.createOffer())
    while (connection.iceGatheringState !== 'complete') await rest(5)
    const decoder = await createDecoder({ sampleRate: 16_000, channels: 1 })
    connection.onTrack.subscribe((track) => {
      track.onReceiveRtp.subscribe(({ header, payload }) => {
        this.#came.push({ number: header.sequenceNumber, at: performance.now() })
        if (decoder.decode(payload).some((sample) => Math.abs(sample) > loud)) this.#heard?.()
      })
    })
    const sdp = await post(connection.localDescription?.sdp ?? '')
    await connection.setRemoteDescription({ type: 'answer', sdp })
    while (this.#channel.readyState !== 'open') await rest(5)
    this.#channel.send('{"type":"hello","v":1}')
    this.#sent.from = performance.now()
    const beat = () => this.#channel.send('{"type":"beat"}')
    this.#timers = [setInterval(beat, 1_000), setInterval(() => this.#send(), frameMs / 2)]
  }

  /** Says something. Resolves once its last packet has gone. */
  say(packets: readonly Uint8Array[]): Promise<void> {
    this.#waiting = packets
    return new Promise((resolve) => (this.#said = resolve))
  }

  /** Says something in writing. */
  type(text: string): void {
    this.#channel.send(JSON.stringify({ type: 'say', id: 'typed', text }))
  }

  /** Resolves when the agent is heard. */
  hears(mostMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`Nothing in ${mostMs} ms.`)), mostMs)
      this.#heard = () => {
        clearTimeout(late)
        this.#heard = undefined
        resolve()
      }
    })
  }

  /** By how many milliseconds each packet of the agent was later than its clock says, behind the one that was least late. */
  get late(): number[] {
    let turns = 0
    const off = this.#came.map(({ number, at }, i) => {
      if (number < (this.#came[i - 1]?.number ?? 0) - 32_768) turns++
      return at - (number + turns * 65_536) * frameMs
    })
    const least = off.reduce((one, other) => Math.min(one, other), Infinity)
    return off.map((one) => one - least)
  }

  async close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer)
    this.#channel.send('{"type":"bye"}')
    await rest(100)
    await this.#connection.close()
  }

  #send(): void {
    const due = Math.floor((performance.now() - this.#sent.from) / frameMs)
    for (; this.#sent.frames < due; this.#sent.frames++) {
      const [next = this.#silence, ...others] = this.#waiting
      const wasLast = this.#waiting.length === 1
      this.#waiting = others
      const header = new RtpHeader({
        payloadType: 111,
        sequenceNumber: (this.#sent.number = (this.#sent.number + 1) % 65_536),
        timestamp: (this.#sent.at = (this.#sent.at + frameSamples) % 2 ** 32),
      })
      this.#microphone.writeRtp(new RtpPacket(header, Buffer.from(next)))
      if (wasLast) this.#said?.()
    }
  }
}

const rest = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
