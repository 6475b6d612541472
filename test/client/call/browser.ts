import { RTCPeerConnection as Connection } from 'werift'
import { onTestFinished } from 'vitest'
import { goOnline } from '../page.ts'

type Kind = 'audio' | 'video'

/** A fake of a track of a device: it can be taken away, as when somebody pulls a plug. */
export class FakeTrack {
  readonly kind: Kind
  readonly device: string
  enabled = true
  contentHint = ''
  readyState: 'live' | 'ended' = 'live'
  onended: (() => void) | null = null

  constructor(kind: Kind, device: string) {
    this.kind = kind
    this.device = device
  }

  stop(): void {
    this.readyState = 'ended'
  }

  takeAway(): void {
    this.readyState = 'ended'
    this.onended?.()
  }
}

/** What a test lets the devices of a fake browser be. */
export interface FakeDevices {
  /** Called for each question: the name of the device, or the `DOMException` that a browser throws. */
  answer(kind: Kind): string
  readonly tracks: FakeTrack[]
  /** The tracks that were handed to connections, newest last; undefined for none. */
  readonly sent: (FakeTrack | undefined)[]
}

class FakeStream {
  readonly #tracks: FakeTrack[]
  constructor(tracks: FakeTrack[]) {
    this.#tracks = tracks
  }
  getTracks = () => this.#tracks
}

class FakeNode {
  readonly gain = {
    value: 1,
    cancelScheduledValues() {},
    setValueAtTime() {},
    linearRampToValueAtTime() {},
  }
  readonly fftSize = 32
  connect() {}
  disconnect() {}
  getFloatTimeDomainData(samples: Float32Array) {
    samples.fill(0.25)
  }
}

class FakeContext {
  readonly currentTime = 0
  readonly destination = new FakeNode()
  createGain = () => new FakeNode()
  createAnalyser = () => new FakeNode()
  createMediaStreamSource = () => new FakeNode()
  resume = async () => {}
  close = async () => {}
}

/** A real connection with the methods of the browser's class that calls use. */
function connectionClass(devices: FakeDevices) {
  return class {
    readonly #peer = new Connection({
      ...{ iceServers: [], iceUseIpv6: false, bundlePolicy: 'max-bundle' },
      iceAdditionalHostAddresses: ['127.0.0.1'],
    })
    ontrack: ((event: { track: { kind: string } }) => void) | null = null
    onconnectionstatechange: (() => void) | null = null
    #packets = 0
    #playing: { rtpTimestamp: number }[] = []
    readonly #senders: { replaceTrack(track: FakeTrack | null): Promise<void> }[] = []

    constructor() {
      onTestFinished(() => this.#peer.close())
      this.#peer.connectionStateChange.subscribe(() => this.onconnectionstatechange?.())
      this.#peer.onTrack.subscribe((track) => {
        track.onReceiveRtp.subscribe(({ header }) => {
          this.#packets++
          this.#playing = [{ rtpTimestamp: header.timestamp }]
        })
        this.ontrack?.({ track: { kind: track.kind } })
      })
    }

    get connectionState() {
      return this.#peer.connectionState
    }

    get localDescription() {
      return this.#peer.localDescription
    }

    createDataChannel(label: string) {
      const channel = this.#peer.createDataChannel(label)
      const shown = {
        onopen: null as (() => void) | null,
        onclose: null as (() => void) | null,
        onmessage: null as ((event: { data: unknown }) => void) | null,
        get readyState() {
          return channel.readyState
        },
        send: (text: string) => channel.send(text),
      }
      channel.stateChange.subscribe((state) => {
        if (state === 'open') shown.onopen?.()
        if (state === 'closed') shown.onclose?.()
      })
      channel.onMessage.subscribe((data) => shown.onmessage?.({ data }))
      return shown
    }

    addTransceiver(track: FakeTrack | Kind, { direction }: { direction: 'sendrecv' | 'sendonly' }) {
      const isKind = typeof track === 'string'
      this.#peer.addTransceiver(isKind ? track : track.kind, { direction })
      devices.sent.push(isKind ? undefined : track)
      this.#senders.push({
        replaceTrack: async (other) => void devices.sent.push(other ?? undefined),
      })
      return { setCodecPreferences() {} }
    }

    getSenders = () => this.#senders

    getReceivers = () => [{ getSynchronizationSources: () => this.#playing }]

    async setLocalDescription() {
      await this.#peer.setLocalDescription(await this.#peer.createOffer())
    }

    async setRemoteDescription({ sdp }: { sdp: string }) {
      await this.#peer.setRemoteDescription({ type: 'answer', sdp })
    }

    async getStats() {
      return new Map([['sound', { type: 'inbound-rtp', packetsReceived: this.#packets }]])
    }

    close() {
      void this.#peer.close()
    }
  }
}

/**
 * Makes a browser of this process, but for its connections, which are real: fakes of what asks for devices and plays sound, at the
 * edge to the machine. The listeners of the window are those of the page of the test.
 */
export function fakeBrowser(
  answer: FakeDevices['answer'] = (kind) => `the ${kind} device`,
): FakeDevices {
  const devices: FakeDevices = { answer, tracks: [], sent: [] }
  const getUserMedia = async (wanted: Partial<Record<Kind, unknown>>) => {
    const kind: Kind = wanted.video ? 'video' : 'audio'
    const track = new FakeTrack(kind, devices.answer(kind))
    devices.tracks.push(track)
    return new FakeStream([track])
  }
  const put = {
    navigator: { mediaDevices: { getUserMedia }, language: 'en' },
    RTCPeerConnection: connectionClass(devices),
    RTCRtpReceiver: { getCapabilities: () => ({ codecs: [{ mimeType: 'video/VP8' }] }) },
    AudioContext: FakeContext,
    MediaStream: FakeStream,
    Audio: class {
      muted = false
      srcObject: unknown = null
    },
    addEventListener: window.addEventListener.bind(window),
    removeEventListener: window.removeEventListener.bind(window),
  }
  const before = Object.keys(put).map(
    (name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)] as const,
  )
  for (const [name, value] of Object.entries(put))
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true })
  onTestFinished(() => {
    for (const [name, descriptor] of before)
      if (descriptor) Object.defineProperty(globalThis, name, descriptor)
      else Reflect.deleteProperty(globalThis, name)
  })
  return devices
}

/** What a browser throws where a person, or a machine, gives no device. */
export const deviceError = (name: 'NotAllowedError' | 'NotFoundError' | 'NotReadableError') =>
  new DOMException('No device.', name)

export { goOnline }
