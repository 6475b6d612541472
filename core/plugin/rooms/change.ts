/** Somebody was invited to a room elsewhere, has joined it, or has left it. */
export interface RoomChange {
  /** Whose room it is: the DID of the person who talks to the oracle there. */
  readonly did: string
  /** The room by the name that the carrying plugin gives to sessions; absent where the room is the pair's own. */
  readonly room?: string
  /** The room by the name that clients know it by. */
  readonly roomId: string
  /** The account that the change is about. */
  readonly account: string
  /** What became of the account. */
  readonly change: 'invited' | 'joined' | 'left'
  /** The account that did it: the same one where somebody joined or left. */
  readonly by: string
}

/** The same, as the section `members` is told of it. */
export interface ToldRoomChange extends RoomChange {
  /** The plugin that carries the room. */
  readonly plugin: string
}
