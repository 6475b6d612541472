import type { CallAgentOptions, CallSecurity } from '../core/calls.ts'
import type { OracleClient } from '../core/client.ts'
import { OracleError } from '../core/error.ts'
import type { Overrides } from '../core/records.ts'
import { type AgentFrame, type PageFrame, readFrame } from './frames.ts'
import { type Proof, verified } from './proof.ts'

/** How long a connection may take; after how long without a packet the other end is lost, and how long it may be gone. */
const openMs = 12_000
const silentMs = 3_000
const awayMs = 1_000
const beatMs = 1_000
/** How often the page looks whether something has come. */
const lookMs = 250
/** A picture for an agent that looks at it now and then. */
const picture = { maxBitrate: 300_000, maxFramerate: 5 }

/** What a connection is made with. */
export interface ConnectionOptions {
  readonly client: OracleClient
  readonly oracleDid: string
  readonly overrides: Overrides
  readonly call: CallAgentOptions
  readonly consent: string | undefined
  readonly iceServers: readonly RTCIceServer[]
  readonly replaces: string | undefined
  readonly microphone: MediaStreamTrack | undefined
  readonly camera: MediaStreamTrack | undefined
  onSound(stream: MediaStream): void
  onFrame(frame: AgentFrame): void
  /** The other end is gone without a word. */
  onLost(): void
}

/** Tells the oracle that a call is over. Its own watch tells it, too, only later. */
export function end(
  { client, oracleDid, overrides }: Pick<ConnectionOptions, 'client' | 'oracleDid' | 'overrides'>,
  callId: string,
): void {
  const path = `/calls/${encodeURIComponent(callId)}`
  client.request(oracleDid, path, { method: 'DELETE' }, overrides).catch(() => {})
}

/** One connection of a call: sound both ways, a picture from here, and the data channel. */
export class Connection {
  readonly callId: string
  readonly security: CallSecurity
  readonly #peer: RTCPeerConnection
  readonly #channel: RTCDataChannel
  readonly #options: ConnectionOptions
  readonly #beating: ReturnType<typeof setInterval>
  readonly #looking: ReturnType<typeof setInterval>
  #away: ReturnType<typeof setTimeout> | undefined
  #heard = { packets: -1, at: 0 }
  #isOver = false

  /** Calls the oracle. Nothing is sent before it is shown that the oracle is the other end. */
  static async open(options: ConnectionOptions): Promise<Connection> {
    const { call, client, oracleDid, overrides, consent, replaces, iceServers } = options
    const peer = new RTCPeerConnection({ iceServers: [...iceServers], bundlePolicy: 'max-bundle' })
    let callId: string | undefined
    try {
      const channel = peer.createDataChannel('call')
      const opened = openedOf(channel)
      opened.catch(() => {}) // whoever waits for it hears of it; nobody does before the answer is there
      // Sound is first, then the picture where there is one: so are the senders and receivers.
      peer.addTransceiver(options.microphone ?? 'audio', { direction: 'sendrecv' })
      if (call.callType === 'video') addPicture(peer, options.camera)
      peer.ontrack = ({ track }) => {
        if (track.kind === 'audio') options.onSound(new MediaStream([track]))
      }
      await peer.setLocalDescription()
      const offer = peer.localDescription?.sdp ?? ''
      const { sessionId, callType, agentVoice, language } = call
      const body = { sessionId, callType, sdp: offer, agentVoice, language, consent, replaces }
      const answer = await client.request<{ callId: string; sdp: string; proof?: Proof }>(
        oracleDid,
        '/calls',
        { body },
        overrides,
      )
      callId = String(answer.callId)
      const { apiUrl } = await client.config(oracleDid, overrides).read()
      const security = await verified(
        { callId, sessionId, offer, answer: String(answer.sdp), proof: answer.proof },
        { client, oracleDid, apiUrl },
      )
      await peer.setRemoteDescription({ type: 'answer', sdp: answer.sdp })
      await opened
      return new Connection(options, callId, security, peer, channel)
    } catch (error) {
      peer.close()
      if (callId !== undefined) end(options, callId)
      throw error
    }
  }

  private constructor(
    options: ConnectionOptions,
    callId: string,
    security: CallSecurity,
    peer: RTCPeerConnection,
    channel: RTCDataChannel,
  ) {
    this.#options = options
    this.callId = callId
    this.security = security
    this.#peer = peer
    this.#channel = channel
    channel.onmessage = ({ data }) => {
      const frame = readFrame(data)
      if (frame && !this.#isOver) options.onFrame(frame)
    }
    channel.onclose = () => this.lose()
    peer.onconnectionstatechange = () => this.#changed()
    this.send({ type: 'hello', v: 1 })
    this.#heard.at = Date.now()
    this.#beating = setInterval(() => this.send({ type: 'beat' }), beatMs)
    this.#looking = setInterval(() => void this.#look(), lookMs)
  }

  send(frame: PageFrame): void {
    if (this.#channel.readyState !== 'open') return
    // What is said is said at a place of the agent's sound: how far that was heard, only the page knows (and not every one does).
    const [playing] = this.#peer.getReceivers()[0]?.getSynchronizationSources?.() ?? []
    this.#channel.send(JSON.stringify({ ...frame, heard: playing?.rtpTimestamp }))
  }

  /** Sends another track, or none. */
  async replace(kind: 'audio' | 'video', track: MediaStreamTrack | null): Promise<void> {
    await this.#peer.getSenders()[kind === 'audio' ? 0 : 1]?.replaceTrack(track)
  }

  /** The connection is of no use any more; another one takes its place. */
  lose(): void {
    if (this.#isOver) return
    this.close()
    this.#options.onLost()
  }

  close(): void {
    this.#isOver = true
    clearInterval(this.#beating)
    clearInterval(this.#looking)
    clearTimeout(this.#away)
    this.#peer.close()
  }

  #changed(): void {
    const { connectionState } = this.#peer
    clearTimeout(this.#away)
    if (connectionState === 'failed' || connectionState === 'closed') return this.lose()
    if (connectionState === 'disconnected') this.#away = setTimeout(() => this.lose(), awayMs)
  }

  /** Whether the agent lives: it sends sound all the time, silence too. */
  async #look(): Promise<void> {
    const at = Date.now()
    let packets = 0
    for (const one of (await this.#peer.getStats()).values())
      if (one.type === 'inbound-rtp') packets += one.packetsReceived ?? 0
    if (packets !== this.#heard.packets) this.#heard = { packets, at }
    else if (at - this.#heard.at > silentMs) this.lose()
  }
}

function addPicture(peer: RTCPeerConnection, camera: MediaStreamTrack | undefined) {
  const transceiver = peer.addTransceiver(camera ?? 'video', {
    direction: 'sendonly',
    sendEncodings: [picture],
  })
  const codecs = RTCRtpReceiver.getCapabilities('video')?.codecs ?? []
  transceiver.setCodecPreferences(codecs.filter(({ mimeType }) => /vp8/i.test(mimeType)))
}

function openedOf(channel: RTCDataChannel): Promise<void> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(
      () =>
        reject(
          new OracleError('call_failed', 'No sound arrives: the network may let no UDP through.'),
        ),
      openMs,
    )
    channel.onopen = () => {
      clearTimeout(late)
      resolve()
    }
    channel.onerror = () => reject(new OracleError('call_failed', 'The call was refused.'))
  })
}
