/** Something that React can read and follow: an immutable snapshot, replaced as a whole. */
export abstract class Store<Snapshot> {
  readonly #listeners = new Set<() => void>()
  #snapshot: Snapshot
  readonly #initial: Snapshot
  #leaving: ReturnType<typeof setTimeout> | undefined
  #mounted = false

  constructor(initial: Snapshot) {
    this.#snapshot = this.#initial = initial
  }

  /** The store calls this when a first component subscribes. */
  protected abstract mount(): void
  /**
   * The store calls this when no component has been subscribed for 100 ms: React in its strict mode unmounts a
   * component and mounts it again at once.
   */
  protected unmount(): void {}

  /** Calls back at every change; returns how to stop. */
  subscribe = (listener: () => void): (() => void) => {
    const own = () => listener()
    this.#listeners.add(own)
    clearTimeout(this.#leaving)
    if (!this.#mounted) {
      this.#mounted = true
      this.mount()
    }
    return () => {
      this.#listeners.delete(own)
      if (this.#listeners.size > 0) return
      clearTimeout(this.#leaving)
      this.#leaving = setTimeout(() => {
        this.#mounted = false
        this.unmount()
      }, 100)
    }
  }

  /** Whether any component looks at the store. */
  get isMounted(): boolean {
    return this.#mounted
  }

  /** What the store knows now: the same object until something changes. */
  getSnapshot = (): Snapshot => this.#snapshot
  /** What a page shows that a server renders. */
  getServerSnapshot = (): Snapshot => this.#initial

  /** Replaces a part of the snapshot and tells every subscriber. */
  protected set(part: Partial<Snapshot>): void {
    this.#snapshot = { ...this.#snapshot, ...part }
    for (const listener of [...this.#listeners]) listener()
  }
}
