import type { JobRunner, JobRunnerOptions } from './runner.ts'

/**
 * How long after its start a server without jobs begins to sweep the rows that plugins of before have left: not while it
 * starts, and sooner than the first sweep of a runner, for a server may restart hourly.
 */
const idleMs = 60_000

/**
 * A runner of jobs whose code is loaded when the server listens: none runs before. What is asked of the runner before it
 * is open has nothing to do, for a runner looks for what is due when it opens.
 */
export class LazyRunner implements Pick<JobRunner, keyof JobRunner> {
  readonly #options: JobRunnerOptions
  #made: JobRunner | undefined
  #making: Promise<JobRunner> | undefined
  #idle: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: JobRunnerOptions) {
    this.#options = options
  }

  /** Begins to run jobs, as `JobRunner` does; where no plugin has any, nothing is loaded for a minute. */
  async open(): Promise<void> {
    if (this.#isClosed) return
    if (this.#options.known.isEmpty) {
      const open = () => this.#load().then((runner) => runner.open())
      const late = (err: unknown) => this.#options.log.warn({ err }, 'Jobs cannot be swept')
      this.#idle = setTimeout(() => void open().catch(late), idleMs).unref()
      return
    }
    const runner = await this.#load()
    if (!this.#isClosed) await runner.open()
  }

  /** Has the runner look for a job that is due in so many milliseconds. */
  wake = (inMs: number): void => this.#made?.wake(inMs)

  /** Claims what is due, as `JobRunner` does. */
  async look(): Promise<void> {
    await (await this.#load()).look()
  }

  /** Plans anew what reaches too far ahead, as `JobRunner` does. */
  async mend(): Promise<void> {
    await (await this.#load()).mend()
  }

  /** Deletes the jobs whose retention is over, as `JobRunner` does. */
  async sweep(): Promise<void> {
    await (await this.#load()).sweep()
  }

  /** Resolves when one of the attempts that run here has ended, at once where none runs. */
  async oneEnded(): Promise<void> {
    await this.#made?.oneEnded()
  }

  /** Stops as the death of the process would. */
  drop(): void {
    this.#isClosed = true
    clearTimeout(this.#idle)
    this.#made?.drop()
  }

  /** Stops claiming and ends what runs, as `JobRunner` does. A runner that is still being loaded never begins. */
  async close(graceMs?: number): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#idle)
    await this.#made?.close(graceMs)
  }

  /** The runner, loaded once. */
  #load(): Promise<JobRunner> {
    this.#making ??= import('./runner.ts').then(({ JobRunner }) => {
      this.#made = new JobRunner(this.#options)
      // A look that was asked for before the end does not begin after it.
      if (this.#isClosed) this.#made.drop()
      return this.#made
    })
    return this.#making
  }
}
