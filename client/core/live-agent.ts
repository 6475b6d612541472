import type { LiveCall } from '../call/live-call.ts'
import type {
  CallAgentOptions,
  CallLevels,
  CallRoom,
  CallsAbout,
  LiveAgentSnapshot,
} from './calls.ts'
import type { OracleClient } from './client.ts'
import { OracleError, toOracleError } from './error.ts'
import type { Overrides } from './records.ts'
import { askAs } from './request.ts'
import { Store } from './store.ts'

/** Shows a person a sentence, as the published hook does. */
export type ToastAlert = (toast: { title: string; description: string }) => void

const nobody: LiveAgentSnapshot = {
  isCalling: false,
  isConnecting: false,
  isReady: false,
  isConfigReady: false,
  sessionStarted: false,
  sessionViewVisible: false,
  state: 'idle',
  captions: [],
  isMuted: true,
  isCameraOn: false,
  approval: null,
  notice: null,
  hasVideo: false,
  security: null,
  seconds: 0,
  callId: null,
  endedBy: null,
  error: null,
}

/** The calls of a page with an oracle: one at a time. What a call needs is fetched when it is called. */
export class LiveAgentStore extends Store<LiveAgentSnapshot> {
  readonly #client: OracleClient
  readonly #oracleDid: string
  readonly #overrides: Overrides
  #call: LiveCall | undefined
  #calling: Promise<{ callId: string; encryptionKey: string }> | undefined
  /** Counts the calls, so that what an ended one still tells is not taken for the next one's. */
  #number = 0
  toast: ToastAlert | undefined

  constructor(client: OracleClient, oracleDid: string, overrides: Overrides = {}) {
    super(nobody)
    this.#client = client
    this.#oracleDid = oracleDid
    this.#overrides = overrides
  }

  protected mount(): void {
    if (this.getSnapshot().isConfigReady) return
    this.#look().catch((error: unknown) => this.set({ error: toOracleError(error) }))
  }

  protected override unmount(): void {
    void this.endCall()
  }

  callAgent = (options: CallAgentOptions): Promise<{ callId: string; encryptionKey: string }> => {
    this.#calling ??= this.#begin(options).finally(() => (this.#calling = undefined))
    return this.#calling
  }

  endCall = async (): Promise<void> => {
    const call = this.#call
    // A call that is only about to begin ends, too.
    this.#number++
    this.#call = undefined
    call?.hangUp()
    if (this.getSnapshot().sessionStarted) this.#ended('user')
  }

  say = (text: string): void => {
    if (text.trim() !== '') this.#call?.say(text.slice(0, 8_000))
  }

  interrupt = (): void => this.#call?.interrupt()

  levels = (): CallLevels => this.#call?.levels() ?? { you: 0, agent: 0 }

  setMuted = (isMuted: boolean): Promise<void> => this.#use((call) => call.devices.mute(isMuted))

  setCamera = (on: boolean): Promise<void> => this.#use((call) => call.devices.show(on))

  decide = async (
    decision: 'approve' | 'reject' | 'edit',
    args?: Readonly<Record<string, unknown>>,
  ): Promise<void> => {
    const { approval } = this.getSnapshot()
    if (!approval) return
    const { apiUrl } = await this.#config()
    const url = `${apiUrl}/runs/${encodeURIComponent(approval.runId)}/resume`
    const body = { decision, ...(args && { args }) }
    // How the run goes on is heard in the call.
    const answer = await askAs(this.#client.tokens, this.#oracleDid, url, { body })
    await answer.body?.cancel().catch(() => {})
    if (this.getSnapshot().approval === approval) this.set({ approval: null })
  }

  /** What a page uses of LiveKit's room. */
  readonly room: CallRoom = roomOf(this)

  async #begin(options: CallAgentOptions): Promise<{ callId: string; encryptionKey: string }> {
    // Before anything is waited for: the browser allows sound to a page whose button was just pressed.
    const context = typeof AudioContext === 'undefined' ? undefined : new AudioContext()
    try {
      return await this.#ring(options, context)
    } catch (thrown) {
      const error = toOracleError(thrown)
      void context?.close().catch(() => {})
      const description = `Failed to start call: ${error.message}`
      this.toast?.({ title: 'Connection Error', description })
      throw error
    }
  }

  async #ring(options: CallAgentOptions, context: AudioContext | undefined) {
    if (this.#call) throw new OracleError('invalid_request', 'A call is under way in this page.')
    const number = ++this.#number
    const { isConfigReady, hearing, voice, consent, hasVideo } = this.getSnapshot()
    const known = { isConfigReady, hearing, voice, consent, hasVideo }
    const begins = { isCalling: true, sessionStarted: true, isConnecting: true } as const
    this.set({ ...nobody, ...known, ...begins, state: 'connecting' })
    const isThis = () => this.#number === number
    try {
      const about = await this.#look(options.language)
      const { LiveCall } = await import('../call/live-call.ts')
      if (!isThis()) throw new OracleError('call_ended', 'The call is over.')
      if (!context || typeof RTCPeerConnection === 'undefined')
        throw new OracleError('media_unavailable', 'This browser makes no calls.')
      this.#call = new LiveCall({
        ...{ client: this.#client, oracleDid: this.#oracleDid, overrides: this.#overrides },
        ...{ call: options, about, context },
        tell: (part) => {
          if (isThis()) this.set(part)
        },
        onEnd: (by, error) => {
          if (isThis()) this.#ended(by, error)
        },
      })
      const made = await this.#call.begin()
      if (isThis()) this.set({ isCalling: false })
      return made
    } catch (thrown) {
      const error = toOracleError(thrown)
      if (isThis() && this.#call) this.#call.close('lost', error)
      else if (isThis()) this.#ended('lost', error)
      throw error
    }
  }

  #ended(endedBy: string, error: OracleError | null = null): void {
    this.#call = undefined
    this.set({
      ...{ isCalling: false, isConnecting: false, isReady: false },
      ...{ sessionStarted: false, sessionViewVisible: false },
      ...{ isMuted: true, isCameraOn: false, approval: null },
      ...{ state: 'ended', endedBy, error },
    })
  }

  async #use(work: (call: LiveCall) => Promise<void>): Promise<void> {
    if (!this.#call) throw new OracleError('call_ended', 'There is no call.')
    try {
      await work(this.#call)
    } catch (thrown) {
      const error = toOracleError(thrown)
      this.set({ error })
      throw error
    }
  }

  #config() {
    return this.#client.config(this.#oracleDid, this.#overrides).read()
  }

  /** What hears and speaks in calls, and where that is. */
  async #look(language?: string): Promise<CallsAbout> {
    await this.#config()
    this.set({ isConfigReady: true })
    const [about, { speechHere }] = await Promise.all([
      this.#client
        .request<CallsAbout>(this.#oracleDid, '/calls', {}, this.#overrides)
        .catch((error: unknown) => Promise.reject(lacking(error))),
      import('../call/live-call.ts'),
    ])
    this.set({ ...(await speechHere(about, language)), hasVideo: about.video })
    return about
  }
}

/** An oracle that does not know the route has no plugin for it. */
const lacking = (error: unknown) =>
  error instanceof OracleError && error.status === 404
    ? new OracleError(
        'plugin_not_available',
        'A voice or video call needs the "calls" plugin, which is not available.',
        { status: 404, cause: error },
      )
    : error

function roomOf(store: LiveAgentStore): CallRoom {
  const now = () => store.getSnapshot()
  return {
    get name() {
      return now().callId ?? ''
    },
    get state() {
      const { sessionStarted, isConnecting, callId } = now()
      if (!sessionStarted) return 'disconnected'
      if (!isConnecting) return 'connected'
      return callId === null ? 'connecting' : 'reconnecting'
    },
    localParticipant: {
      get isMicrophoneEnabled() {
        return !now().isMuted
      },
      get isCameraEnabled() {
        return now().isCameraOn
      },
      setMicrophoneEnabled: (on) => store.setMuted(!on),
      setCameraEnabled: (on) => store.setCamera(on),
    },
    disconnect: () => store.endCall(),
  }
}
