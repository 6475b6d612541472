const minuteMs = 60_000
/** How many senders and rooms are counted at once. */
const mostCounted = 10_000

/** Counts turns of the last minute, by sender and by room. */
export class Counts {
  readonly #times = new Map<string, number[]>()

  /** Counts one more; false when there were so many in the last minute. */
  take(key: string, most: number, now: number): boolean {
    const recent = this.recent(key, now)
    if (recent.length >= most) return false
    this.#times.delete(key)
    this.#times.set(key, [...recent, now])
    for (const [oldest] of this.#times) {
      if (this.#times.size <= mostCounted) break
      this.#times.delete(oldest)
    }
    return true
  }

  recent(key: string, now: number): number[] {
    return (this.#times.get(key) ?? []).filter((at) => now - at < minuteMs)
  }
}

/** Turns a minute that a group of so few speakers has while nobody new speaks, and how long the oracle is quiet then. */
const rally = { most: 6, speakers: 3, restMs: 5 * minuteMs }

/** Ends conversations in which two programs answer each other. */
export class Rallies {
  readonly #rooms = new Map<
    string,
    { speakers: Set<string>; times: number[]; restsUntil: number }
  >()

  /** Whether a message of a group is answered. `told`: the oracle says now that it rests. */
  take(roomId: string, speaker: string, now: number): 'yes' | 'told' | 'no' {
    const known = this.#rooms.get(roomId)
    const room = known ?? { speakers: new Set<string>(), times: [], restsUntil: 0 }
    this.#rooms.delete(roomId)
    this.#rooms.set(roomId, room)
    for (const [oldest] of this.#rooms) {
      if (this.#rooms.size <= mostCounted) break
      this.#rooms.delete(oldest)
    }
    if (now < room.restsUntil) return 'no'
    room.times = room.times.filter((at) => now - at < minuteMs)
    if (room.times.length === 0) room.speakers.clear()
    if (!room.speakers.has(speaker)) {
      room.speakers.add(speaker)
      room.times = []
    }
    room.times.push(now)
    if (room.times.length <= rally.most || room.speakers.size > rally.speakers) return 'yes'
    room.restsUntil = now + rally.restMs
    room.times = []
    room.speakers.clear()
    return 'told'
  }
}
