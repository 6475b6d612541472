import type { Played } from './playing.ts'

/** What a call needs of the place that it is answered from. */
export interface Place {
  /** The UDP ports that may be used. */
  readonly ports: readonly [number, number]
  /** The one address that is told, where the server stands behind another one. */
  readonly address?: string
  /** Loopback is offered, too. */
  readonly isLocal: boolean
}

/** What the main thread tells the thread of sound. */
export type ToMedia =
  | {
      readonly type: 'open'
      readonly call: string
      readonly sdp: string
      readonly place: Place
      readonly silenceMs: number
    }
  | { readonly type: 'send'; readonly call: string; readonly text: string }
  | {
      readonly type: 'play'
      readonly call: string
      readonly part: number
      readonly pcm: Int16Array
      readonly isLast: boolean
    }
  | { readonly type: 'hold' | 'go' | 'close'; readonly call: string }
  /** Ends the sound, and asks where it stood; `heard`: the time in the packet that the page was playing. */
  | { readonly type: 'drop'; readonly call: string; readonly heard?: number }
  | { readonly type: 'silence'; readonly call: string; readonly ms: number }
  | { readonly type: 'look'; readonly call: string; readonly number: number }

/** What the thread of sound tells. */
export type FromMedia = { readonly call: string } & (
  | { readonly type: 'opened'; readonly sdp: string }
  | { readonly type: 'failed'; readonly reason: string }
  | { readonly type: 'connected' }
  /** So many frames of sound were sent over 20 ms late. */
  | { readonly type: 'late'; readonly frames: number }
  /** A frame of the data channel. */
  | { readonly type: 'frame'; readonly text: string }
  | { readonly type: 'begun' }
  | { readonly type: 'sound'; readonly pcm: Int16Array }
  | { readonly type: 'paused' | 'resumed' }
  | { readonly type: 'ended'; readonly voicedMs: number }
  | ({ readonly type: 'over' } & Partial<Played>)
  | { readonly type: 'sure' | 'passed' }
  | ({ readonly type: 'played' } & Played)
  /** Where the agent stood when what it said was dropped. */
  | ({ readonly type: 'dropped' } & Partial<Played>)
  /** A picture of the camera as a WebP file; without one, none came in time. */
  | { readonly type: 'looked'; readonly number: number; readonly webp?: Uint8Array }
  /** Nothing has come for so long that the other end is gone. */
  | { readonly type: 'lost'; readonly silentMs?: number }
  /** The other end does what no page does. */
  | { readonly type: 'hostile'; readonly reason: string }
)
