import type {
  CallAgentOptions,
  CallCaption,
  CallsAbout,
  LiveAgentSnapshot,
  SpeechBy,
} from '../core/calls.ts'
import type { OracleClient } from '../core/client.ts'
import { OracleError, toOracleError } from '../core/error.ts'
import type { Overrides } from '../core/records.ts'
import { pause } from '../core/timing.ts'
import { Connection, end } from './connection.ts'
import { Devices } from './devices.ts'
import type { AgentFrame } from './frames.ts'
import { pageHearing, PageHearing } from './page-hearing.ts'
import { PageVoice, voiceFor } from './page-voice.ts'
import { Sound } from './sound.ts'

/** How often captions are shown, how many are kept, and how often a lost call is made again, in how long. */
const publishMs = 50
const mostCaptions = 200
const mostTries = 5
const triesMs = 60_000
const retryMs = 500

/** What a call is made with. */
export interface LiveCallOptions {
  readonly client: OracleClient
  readonly oracleDid: string
  readonly overrides: Overrides
  readonly call: CallAgentOptions
  readonly about: CallsAbout
  readonly context: AudioContext
  tell(part: Partial<LiveAgentSnapshot>): void
  /** The call is over; `error` where nobody wanted it to be. */
  onEnd(by: string, error?: OracleError): void
}

const captions: SpeechBy = { by: 'none', where: 'device', name: 'captions' }

/** What hears in a call from this page, and what speaks. */
export async function speechHere(
  about: CallsAbout,
  language?: string,
): Promise<{ hearing: SpeechBy; voice: SpeechBy; consent?: string }> {
  const hearing = about.hearing.by === 'browser' ? await pageHearing(language) : about.hearing
  const voice =
    about.voice.by === 'none' || (about.voice.by === 'browser' && !voiceFor(language))
      ? captions
      : about.voice
  const own = hearing.by === 'browser' && hearing.where === 'service' ? 'browser' : undefined
  const consent = [about.consent, own].filter((name) => name !== undefined).join(', ')
  return { hearing, voice, ...(consent !== '' && { consent }) }
}

/** One call, from its first ring to its end, over as many connections as it takes. */
export class LiveCall {
  readonly #options: LiveCallOptions
  readonly #devices: Devices
  readonly #sound: Sound
  readonly #voice: PageVoice | undefined
  readonly #over = new AbortController()
  #hearing: PageHearing | undefined
  #connection: Connection | undefined
  #captions: readonly CallCaption[] = []
  #publishing: ReturnType<typeof setTimeout> | undefined
  #counting: ReturnType<typeof setInterval> | undefined
  #calledAt: number[] = []
  #words = 0

  constructor(options: LiveCallOptions) {
    this.#options = options
    const { call, about, context, tell } = options
    this.#sound = new Sound(context)
    this.#devices = new Devices({
      wantsPicture: call.callType === 'video',
      replaced: (kind, track) => {
        if (kind === 'audio') this.#sound.watch(track)
        void this.#connection?.replace(kind, track ?? null).catch(() => {})
      },
      tell: (part) => {
        tell(part)
        this.#hearing?.listen(this.#devices.isHeard)
      },
    })
    if (about.voice.by === 'browser')
      this.#voice = new PageVoice(
        call.language,
        (id, chars) => this.#connection?.send({ type: 'spoken', id, chars }),
        () => tell({ voice: captions }),
      )
    addEventListener('online', this.#lose)
    addEventListener('pagehide', this.#bye)
  }

  /** Opens the devices, calls, and comes back once the oracle is in the call. */
  async begin(): Promise<{ callId: string; encryptionKey: string }> {
    const { call, about } = this.#options
    const { hearing, consent } = await speechHere(about, call.language)
    const isHeard = call.microphone !== false
    this.#demandConsent(isHeard ? consent : about.consent)
    if (isHeard) await this.#devices.open()
    this.#demandGoing()
    await this.#connect(undefined)
    if (isHeard && hearing.by === 'browser') this.#hear(hearing)
    this.#counting = setInterval(
      () => this.#options.tell({ seconds: Math.floor((Date.now() - startedAt) / 1_000) }),
      1_000,
    )
    const startedAt = Date.now()
    const { callId = '', security } = this.#connection ?? {}
    return { callId, encryptionKey: security?.fingerprint ?? '' }
  }

  say(text: string, by: 'typed' | 'recognized' = 'typed'): void {
    const id = `${by}-${++this.#words}-${Date.now().toString(36)}`
    this.#connection?.send({ type: 'say', id, text, by })
  }

  interrupt(): void {
    this.#connection?.send({ type: 'stop' })
  }

  get devices(): Pick<Devices, 'mute' | 'show'> {
    return this.#devices
  }

  levels = () => this.#sound.levels()

  /** Ends the call here and at the oracle. */
  hangUp(): void {
    this.#bye()
    const { callId } = this.#connection ?? {}
    this.close('user')
    if (callId !== undefined) end(this.#options, callId)
  }

  close(by: string, error?: OracleError): void {
    if (this.#over.signal.aborted) return
    this.#over.abort()
    clearInterval(this.#counting)
    this.#publish()
    removeEventListener('online', this.#lose)
    removeEventListener('pagehide', this.#bye)
    this.#hearing?.close()
    this.#voice?.drop()
    this.#devices.close()
    // What was said last, `bye` too, goes out before the connection closes.
    const connection = this.#connection
    this.#connection = undefined
    setTimeout(() => connection?.close(), 100)
    this.#sound.close()
    this.#options.onEnd(by, error)
  }

  #demandConsent(needed: string | undefined): void {
    if (needed === undefined) return
    const given = (this.#options.call.consent ?? '').split(',').map((name) => name.trim())
    const missing = needed.split(', ').filter((name) => !given.includes(name))
    if (missing.length === 0) return
    throw new OracleError(
      'consent_needed',
      `Sound or words go to ${missing.join(', ')}: ask first.`,
      { details: { consent: needed } },
    )
  }

  #demandGoing(): void {
    if (this.#over.signal.aborted) throw ended()
  }

  async #connect(replaces: string | undefined): Promise<void> {
    const { client, oracleDid, overrides, call, about } = this.#options
    this.#calledAt.push(Date.now())
    const connection = await Connection.open({
      ...{ client, oracleDid, overrides, call, replaces },
      // Of those who have to be consented to, the server is told its own.
      ...{ consent: about.consent, iceServers: about.iceServers },
      microphone: this.#devices.track('audio'),
      camera: this.#devices.track('video'),
      onSound: (stream) => this.#sound.play(stream),
      onFrame: (frame) => this.#take(frame),
      onLost: () => void this.#comeBack(),
    })
    if (this.#over.signal.aborted) {
      connection.send({ type: 'bye' })
      setTimeout(() => connection.close(), 100)
      this.#demandGoing()
    }
    this.#connection = connection
    this.#sound.watch(this.#devices.track('audio'))
    this.#sound.fade(1)
    const { callId, security } = connection
    this.#options.tell({ callId, security, isConnecting: false })
  }

  #lose = () => this.#connection?.lose()

  #bye = () => this.#connection?.send({ type: 'bye' })

  /** The connection is lost: the call is made again, and takes the old one's place. */
  async #comeBack(): Promise<void> {
    const lost = this.#connection
    if (!lost || this.#over.signal.aborted) return
    this.#connection = undefined
    const { tell } = this.#options
    tell({ state: 'connecting', isConnecting: true })
    const { signal } = this.#over
    for (let tries = 0; !signal.aborted; tries++) {
      const recent = this.#calledAt.filter((at) => Date.now() - at < triesMs)
      this.#calledAt = recent
      if (tries >= mostTries || recent.length > mostTries) break
      if (tries > 0) await pause(retryMs * 2 ** tries, signal)
      try {
        return await this.#connect(lost.callId)
      } catch (thrown) {
        const error = toOracleError(thrown)
        // A call that was ended, or a page that may not call any more, does not come back by calling again.
        if (error.status >= 400 && error.status < 500 && error.status !== 429)
          return this.close('lost', ended(error))
        if (error.code === 'call_not_verified') return this.close('lost', error)
      }
    }
    this.close('lost', new OracleError('call_failed', 'The call is lost.'))
  }

  #hear({ where }: SpeechBy): void {
    const { call, tell } = this.#options
    this.#hearing = new PageHearing({
      language: call.language,
      isLocal: where === 'device',
      partial: (text) => this.#connection?.send({ type: 'partial', text }),
      said: (text) => this.say(text, 'recognized'),
      failed: (reason) =>
        tell({
          hearing: { by: 'typed', where: 'device', name: 'typed words' },
          notice: {
            code: 'HEARING_FAILED',
            text: `This browser does not hear (${reason}); please type.`,
          },
        }),
    })
    this.#hearing.listen(this.#devices.isHeard)
  }

  #take(frame: AgentFrame): void {
    const { tell } = this.#options
    if (frame.type === 'state') this.#stands(frame.state)
    else if (frame.type === 'caption') this.#caption(frame)
    else if (frame.type === 'hold') {
      this.#connection?.send({ type: 'heard' })
      this.#sound.fade(0)
      this.#voice?.hold()
    } else if (frame.type === 'go') {
      this.#sound.fade(1)
      this.#voice?.goOn()
    } else if (frame.type === 'say') {
      this.#voice?.say({ id: frame.id, text: frame.text })
    } else if (frame.type === 'approval') {
      const { type, ...approval } = frame
      tell({ approval })
    } else if (frame.type === 'decided') tell({ approval: null })
    else if (frame.type === 'notice') {
      const { code, text } = frame
      // The server goes down: another one takes the call.
      if (code === 'MOVING') this.#lose()
      else tell({ notice: { code, text } })
    } else if (frame.type === 'ended') {
      if (frame.by === 'lost') this.#lose()
      else this.close(frame.by)
    }
  }

  #stands(state: Extract<AgentFrame, { type: 'state' }>['state']): void {
    // Whoever was interrupted says nothing more of that.
    if (state === 'listening' || state === 'thinking') this.#voice?.drop()
    if (state === 'speaking') this.#sound.fade(1)
    this.#options.tell({ state, isReady: true, sessionViewVisible: true })
  }

  #caption({ id, who, text, isFinal }: CallCaption): void {
    // What is understood for good takes the place of what was understood so far.
    const others = this.#captions.filter((one) => one.id !== id && (one.isFinal || one.who !== who))
    this.#captions = [...others, { id, who, text, isFinal }].slice(-mostCaptions)
    this.#publishing ??= setTimeout(() => this.#publish(), publishMs)
  }

  #publish(): void {
    clearTimeout(this.#publishing)
    this.#publishing = undefined
    this.#options.tell({ captions: this.#captions })
  }
}

const ended = (cause?: OracleError) =>
  cause?.code === 'unauthorized'
    ? cause
    : new OracleError('call_ended', 'The call is over.', { cause, serverCode: cause?.serverCode })
