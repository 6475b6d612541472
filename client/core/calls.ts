import type { OracleError } from './error.ts'

/** Where sound or words go: nowhere but this device, the oracle's server, or somebody else, whom `name` names. */
export type SpeechPlace = 'device' | 'server' | 'service'

/** What turns speech into text in a call, or text into speech. */
export interface SpeechBy {
  /** `browser`, `espeak`, `command`, `openai`, `typed` (nothing hears: words are typed), `none` (captions alone). */
  readonly by: string
  readonly where: SpeechPlace
  readonly name: string
}

/** What `GET /calls` says. */
export interface CallsAbout {
  readonly hearing: SpeechBy
  readonly voice: SpeechBy & { readonly voices: readonly string[] }
  /** What has to be named as consented to before a call; absent where nothing leaves the server. */
  readonly consent?: string | undefined
  readonly video: boolean
  readonly iceServers: readonly RTCIceServer[]
  readonly limits: {
    readonly minutes: number
    readonly minutesPerDay: number
    readonly idleSeconds: number
  }
  readonly minutesLeft: number
}

/** The call to make. */
export interface CallAgentOptions {
  readonly callType: 'audio' | 'video'
  readonly sessionId: string
  readonly userDid: string
  readonly agentVoice?: string
  readonly language?: string
  /** The names of those to whom sound or words may go, as `consent` of the hook says them. */
  readonly consent?: string
  /** False: a call without a microphone, typed in and spoken out. */
  readonly microphone?: boolean
}

/** What somebody says in a call, as text. */
export interface CallCaption {
  readonly id: string
  readonly who: 'you' | 'agent'
  readonly text: string
  /** False while it is still being understood. */
  readonly isFinal: boolean
}

/** A tool that waits for the person in the call. */
export interface CallApproval {
  readonly runId: string
  readonly toolCallId: string
  readonly toolName: string
  readonly args: Readonly<Record<string, unknown>>
  /** The sentence by which the tool itself asks. */
  readonly question?: string
}

/** How a call stands. */
export type LiveCallState =
  'idle' | 'connecting' | 'listening' | 'thinking' | 'speaking' | 'held' | 'waiting' | 'ended'

/** How it was checked that the oracle, and nobody in between, is the other end. */
export interface CallSecurity {
  /** `did`: the key stands in the DID itself; `document`: in the DID's document; `origin`: only the server's own word for it. */
  readonly verifiedBy: 'did' | 'document' | 'origin'
  /** The fingerprint of the other end's certificate. */
  readonly fingerprint: string
}

/** What a page knows of a call. */
export interface LiveAgentSnapshot {
  readonly isCalling: boolean
  readonly isConnecting: boolean
  /** The oracle is in the call. */
  readonly isReady: boolean
  readonly isConfigReady: boolean
  readonly sessionStarted: boolean
  readonly sessionViewVisible: boolean
  readonly state: LiveCallState
  /** The newest 200, oldest first. */
  readonly captions: readonly CallCaption[]
  readonly isMuted: boolean
  readonly isCameraOn: boolean
  readonly approval: CallApproval | null
  /** The last thing that the oracle had to say of the call itself. */
  readonly notice: { readonly code: string; readonly text: string } | null
  /** What turns speech into text; undefined until it is known. */
  readonly hearing?: SpeechBy
  readonly voice?: SpeechBy
  /** The names to consent to before a call with a microphone; undefined where nothing leaves the device and the server. */
  readonly consent?: string
  readonly hasVideo: boolean
  readonly security: CallSecurity | null
  readonly seconds: number
  readonly callId: string | null
  /** Why the call is over: `user`, `agent`, `idle`, `limit`, `lost`, `replaced`, `server`, `session`. */
  readonly endedBy: string | null
  readonly error: OracleError | null
}

/** How loud the two ends are, from 0 to 1. */
export interface CallLevels {
  readonly you: number
  readonly agent: number
}

/** What pages use of LiveKit's room; it is not that class. */
export interface CallRoom {
  readonly name: string
  readonly state: 'disconnected' | 'connecting' | 'connected' | 'reconnecting'
  readonly localParticipant: {
    readonly isMicrophoneEnabled: boolean
    readonly isCameraEnabled: boolean
    setMicrophoneEnabled(on: boolean): Promise<void>
    setCameraEnabled(on: boolean): Promise<void>
  }
  disconnect(): Promise<void>
}
