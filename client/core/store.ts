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

  /** Called when somebody begins to look. */
  protected abstract mount(): void
  /** Called when nobody has looked for a moment: React unmounts and mounts again in a breath. */
  protected unmount(): void {}

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

  get isMounted(): boolean {
    return this.#mounted
  }

  getSnapshot = (): Snapshot => this.#snapshot
  getServerSnapshot = (): Snapshot => this.#initial

  protected set(part: Partial<Snapshot>): void {
    this.#snapshot = { ...this.#snapshot, ...part }
    for (const listener of [...this.#listeners]) listener()
  }
}
