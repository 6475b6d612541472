import type { ReadMessages, SessionMessages } from './clients/transcript.ts'
import type { RoomChange } from './rooms/change.ts'

/** A component of the client, by its name there. */
export interface ShownComponent {
  /** The component's name, as the client registered it. */
  readonly name: string
  /** What the component is drawn with: at most 64 KiB of JSON. */
  readonly args: Readonly<Record<string, unknown>>
}

/** What a plugin says without a model: a text or a component. */
export interface NewWords {
  /** To whom. */
  readonly user: { readonly did: string }
  /** The session, one of that user; by default the user's newest session that this plugin began, or a new one. */
  readonly session?: string
  /** The words, 64 KiB at most. */
  readonly text?: string
  /** A component, in place of words. */
  readonly component?: ShownComponent
  /** At most 200 characters. The same key says it once to the user, for as long as the session is there. */
  readonly key?: string
  /** The title of a session that has none. */
  readonly title?: string
  /** False for words of which the user need not hear elsewhere. */
  readonly notify?: boolean
}

/** The words that were said, or those that were said before by the same key. */
export interface SaidWords {
  /** The session in which the words stand. */
  readonly sessionId: string
  /** The id of the message, as the history has it. */
  readonly messageId: string
}

/** The session that a plugin wants to be there. */
export interface WantedSession {
  /** Whose session it is. */
  readonly user: { readonly did: string }
  /** Its id, of up to 100 characters; by default the user's newest session of the room, or the newest that this plugin began. */
  readonly id?: string
  /**
   * The room of a session that is made now, by the plugin's own name for the room. All sessions of one room share their
   * room-scoped state.
   */
  readonly room?: string
  /**
   * Beside `room`: others read along there. The session keeps what it was made with; where that is something else than is
   * asked for here, a session of an id is refused with `CONFLICT`, and by its room it is not found.
   */
  readonly shared?: boolean
  /** The title of a session that is made now. */
  readonly title?: string
}

/** The session that `ensure` found or made. */
export interface EnsuredSession {
  /** The id of the session. */
  readonly sessionId: string
  /** False when the session was there before. */
  readonly isNew: boolean
}

/** Which message a plugin asks for. */
export interface WantedMessage {
  /** Whose session it is. */
  readonly user: { readonly did: string }
  /** The id of the session. */
  readonly session: string
  /** The id of the message, as the history has it. */
  readonly id: string
}

/** A message of a session. */
export interface FoundMessage {
  /** Whose words these are: those of a plugin began a turn in the place of the user's. */
  readonly by: 'user' | 'plugin' | 'oracle'
  readonly text: string
  /** The run that the message belongs to. */
  readonly runId: string
  readonly at: Date
  /** The id of the model that said it, where one did. */
  readonly model?: string
  /** The tools that the answer had called up to this message, by name, each once. */
  readonly tools: readonly string[]
  /** The plugins of these tools. */
  readonly plugins: readonly string[]
}

/** The sessions of users, as a plugin reaches them. */
export interface PluginSessions {
  /**
   * Says something to a user without asking a model. Whoever has the session open sees it at once, the history keeps it, and
   * the model reads it in later turns. A turn that is under way goes on.
   */
  say(words: NewWords): Promise<SaidWords>
  /** Finds a session of a user, or makes it. */
  ensure(wanted: WantedSession): Promise<EnsuredSession>
  /** Finds a message; undefined where the user has no such session, or the session no such message. */
  message(wanted: WantedMessage): Promise<FoundMessage | undefined>
  /**
   * The newest messages of a session, as `GET /sessions/:id/messages` has them. Rejects with `NOT_FOUND` where the user has no
   * such session.
   */
  messages(read: ReadMessages): Promise<SessionMessages>
  /**
   * Deletes a session and everything in it, as `DELETE /sessions/:id` does; a turn that is under way ends. Rejects with
   * `NOT_FOUND` where the user has no such session.
   */
  delete(session: {
    readonly user: { readonly did: string }
    readonly session: string
  }): Promise<void>
  /**
   * The room-scoped state that plugins show to clients, by plugin and key: what `.meta({ scope: 'room', share: true })` says of a
   * key. Read it again after a call of a tool: then what the call changed is there.
   */
  shared(session: {
    readonly user: { readonly did: string }
    readonly session: string
  }): Promise<Readonly<Record<string, Readonly<Record<string, unknown>>>>>
}

/** Whose room it is: that of a user who talks to the oracle directly, or one that the plugin itself named. */
export type RoomName =
  | { readonly user: { readonly did: string }; readonly room?: undefined }
  | { readonly room: string; readonly user?: undefined }

/** The plugin's own room-scoped state outside a turn. Keys that live in a session have their defaults here. */
export interface Rooms<State = Record<string, unknown>> {
  /** What stands in the room now: `{ user }`, or `{ room }` by the name that the plugin gave to a session. */
  read(room: RoomName): Promise<Readonly<State>>
  /**
   * Changes what stands in the room, alone: other writers wait. `change` assigns to the state and returns nothing, and no
   * promise. A turn that is under way sees the change in its next turn.
   */
  update(room: RoomName, change: (state: State) => void): Promise<void>
  /**
   * Tells every plugin that has the section `members` of a change among the members of a room: for the plugin that carries the
   * room. Rejects with the first fault once all of them were told; tell them again then.
   */
  changed(change: RoomChange): Promise<void>
}
