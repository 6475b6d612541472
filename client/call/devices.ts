import type { LiveAgentSnapshot } from '../core/calls.ts'
import { OracleError, toOracleError } from '../core/error.ts'

type Kind = 'audio' | 'video'

/** What is asked for: browsers take echoes and noise out of sound by themselves. */
const wanted = {
  audio: true,
  video: { width: { ideal: 640 }, height: { ideal: 480 }, frameRate: { ideal: 5, max: 15 } },
}

/** What devices are opened for. */
export interface DevicesOptions {
  readonly wantsPicture: boolean
  /** Another track is to be sent from now on, or none. */
  replaced(kind: Kind, track: MediaStreamTrack | undefined): void
  tell(part: Partial<LiveAgentSnapshot>): void
}

/** The microphone and the camera of a call: opened when they are asked for, and let go when they are not. */
export class Devices {
  readonly #options: DevicesOptions
  readonly #tracks: Partial<Record<Kind, MediaStreamTrack>> = {}
  #isMuted = true
  #isClosed = false

  constructor(options: DevicesOptions) {
    this.#options = options
  }

  track(kind: Kind): MediaStreamTrack | undefined {
    return this.#tracks[kind]
  }

  /** Whether the person can be heard. */
  get isHeard(): boolean {
    return this.#tracks.audio !== undefined && !this.#isMuted
  }

  /** Opens the microphone, and the camera of a call with a picture. */
  async open(): Promise<void> {
    await this.#take('audio')
    this.#isMuted = false
    this.#options.tell({ isMuted: false })
    if (this.#options.wantsPicture) await this.show(true)
  }

  async mute(isMuted: boolean): Promise<void> {
    if (!isMuted && !this.#tracks.audio) await this.#take('audio')
    this.#isMuted = isMuted
    if (this.#tracks.audio) this.#tracks.audio.enabled = !isMuted
    this.#options.tell({ isMuted })
  }

  /** The camera is let go when it is off, so that its light goes out. */
  async show(on: boolean): Promise<void> {
    if (!this.#options.wantsPicture)
      throw new OracleError('media_unavailable', 'This call has no picture.')
    if (on && !this.#tracks.video) await this.#take('video')
    if (!on) this.#drop('video')
    this.#options.tell({ isCameraOn: on })
  }

  close(): void {
    this.#isClosed = true
    for (const track of Object.values(this.#tracks)) stop(track)
  }

  async #take(kind: Kind): Promise<void> {
    const track = await askFor(kind)
    if (this.#isClosed) return stop(track)
    this.#tracks[kind] = track
    // Another device takes the place of one that was taken away.
    track.onended = () => void this.#taken(kind)
    this.#options.replaced(kind, track)
  }

  async #taken(kind: Kind): Promise<void> {
    this.#drop(kind)
    try {
      await this.#take(kind)
      if (kind === 'audio') await this.mute(this.#isMuted)
    } catch (thrown) {
      if (this.#isClosed) return
      const error = toOracleError(thrown)
      if (kind === 'video') return this.#options.tell({ error, isCameraOn: false })
      this.#isMuted = true
      this.#options.tell({ error, isMuted: true })
    }
  }

  #drop(kind: Kind): void {
    const track = this.#tracks[kind]
    delete this.#tracks[kind]
    if (track) stop(track)
    this.#options.replaced(kind, undefined)
  }
}

function stop(track: MediaStreamTrack): void {
  track.onended = null
  track.stop()
}

async function askFor(kind: Kind): Promise<MediaStreamTrack> {
  const { mediaDevices } = globalThis.navigator ?? {}
  // A page that came by plain http has none.
  if (!mediaDevices) throw unavailable(kind)
  try {
    const stream = await mediaDevices.getUserMedia({ [kind]: wanted[kind] })
    const [track] = stream.getTracks()
    if (!track) throw new Error('No track.')
    // Fewer pictures rather than smaller ones: the agent looks at one, and reads what stands in it.
    track.contentHint = 'detail' // no hint of sound, so a microphone ignores it
    return track
  } catch (cause) {
    const { name } = cause as Error
    throw name === 'NotAllowedError' || name === 'SecurityError'
      ? new OracleError('media_denied', `The ${named[kind]} was not allowed.`, { cause })
      : unavailable(kind, cause)
  }
}

const named: Readonly<Record<Kind, string>> = { audio: 'microphone', video: 'camera' }

const unavailable = (kind: Kind, cause?: unknown) =>
  new OracleError('media_unavailable', `There is no ${named[kind]}.`, { cause })
