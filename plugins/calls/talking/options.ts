import type { Log, Turns } from '#core'
import type { ToMedia } from '../media/messages.ts'
import type { Hearing, Voice } from '../speech/port.ts'
import type { EndedBy } from '../tables.ts'
import type { Heard } from './speaker.ts'

/** What a conversation is held with. */
export interface ConversationOptions {
  readonly call: {
    readonly id: string
    readonly did: string
    readonly sessionId: string
    readonly type: string
    readonly language?: string
    readonly voice?: string
  }
  readonly turns: Turns
  readonly log: Log
  readonly hearing: Hearing | undefined
  readonly hearingName: string
  readonly voice: Voice | undefined
  readonly voiceName: string
  readonly silenceMs: number
  readonly idleMs: number
  /** How far a reply was heard in the call that this one replaces. */
  readonly heardBefore?: Heard
  /** To the thread of sound. */
  tell(message: DistributedOmit<ToMedia>): void
  /** More of a reply was heard: whoever goes on with the call begins there. */
  onHeard(): void
  /** The call is over. */
  onEnd(by: EndedBy, silentMs: number): void
}

type DistributedOmit<Message> = Message extends { call: string } ? Omit<Message, 'call'> : never
