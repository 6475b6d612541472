import { RuntimeError } from '../../../errors.ts'
import type {
  AnyRunContext,
  AnyRunSection,
  RunAdmission,
  RunBeginning,
  RunEnding,
} from '../../../plugin.ts'
import { isActive, isOpen, type PluginRecord } from '../../base/plugin-record.ts'
import { refusalOf } from '../../boot/refusal.ts'
import type { RunDatabase } from '../journal/tables.ts'
import type { Save, TurnRequest } from '../run.ts'
import { inTransaction } from './in-transaction.ts'

/** A part of the kernel that hears of the ends of runs, as a plugin does with `runs.end`. */
export interface KernelEnd {
  /** Whether the part wants to hear of the end of a run with this request. */
  wants(request: TurnRequest): boolean
  /** Called in the transaction that settles the run for this part. */
  end(run: RunEnding, trx: RunDatabase): Promise<void>
}

/** What the gates of an app are made of. */
export interface RunGatesOptions {
  readonly records: readonly PluginRecord[]
  /** The plugin of a tool, for those who hear of ends. */
  pluginOf?(tool: string): string | undefined
  /** How long all functions `admit` of a turn may take. */
  readonly admitMs?: number
  /** How long one function `begin` or `end` may take: a transaction is open all the while. */
  readonly writeMs?: number
}

type Kind = keyof AnyRunSection

/** The sections `runs` of an app's plugins: who is asked before a turn begins, and who hears of its end. */
export class RunGates {
  readonly #records: readonly PluginRecord[]
  readonly #keepers: readonly PluginRecord[]
  readonly #kernel = new Map<string, KernelEnd>()
  readonly pluginOf: (tool: string) => string | undefined
  readonly #admitMs: number
  readonly #writeMs: number

  constructor(options: RunGatesOptions) {
    const { records, pluginOf = () => undefined, admitMs = 10_000, writeMs = 10_000 } = options
    this.pluginOf = pluginOf
    this.#records = records.filter(({ definition }) => definition.runs !== undefined)
    this.#keepers = records.filter(({ definition }) => definition.sessionDeleted !== undefined)
    this.#admitMs = admitMs
    this.#writeMs = writeMs
  }

  /** Has a part of the kernel hear of ends. Every process of the app calls this before the first turn begins. */
  onEnd(name: string, end: KernelEnd): void {
    this.#kernel.set(`kernel:${name}`, end)
  }

  /** Whether nobody ever hears of an end. */
  get isEmpty(): boolean {
    return this.#records.length === 0 && this.#kernel.size === 0
  }

  /** Whether any plugin has a say in the beginning of a turn. */
  get areClosing(): boolean {
    return this.#active.some(mayRefuse)
  }

  /** Everybody who may hear of ends, at work or not. */
  get consumers(): string[] {
    const plugins = this.#active.filter((record) => record.runs?.end).map(({ name }) => name)
    return [...plugins, ...this.#kernel.keys()]
  }

  /** Who can be told of an end now: a plugin that is pending or failed cannot. */
  get listening(): string[] {
    const plugins = this.#with('end').map(({ name }) => name)
    return [...plugins, ...this.#kernel.keys()]
  }

  /** Who has to hear of the end of a run with this request. */
  consumersOf(request: TurnRequest): string[] {
    return this.consumers.filter((name) => this.#kernel.get(name)?.wants(request) ?? true)
  }

  /** Whether a plugin is asked before the transaction of a beginning. */
  get haveAdmit(): boolean {
    return this.#with('admit').length > 0
  }

  /** Whether a plugin has something to do in the transaction of a beginning. */
  get actAtBeginnings(): boolean {
    return this.#active.some(
      ({ runs, definition, base }) =>
        (typeof definition.runs === 'function' && !base) || runs?.begin !== undefined,
    )
  }

  /** Whether a plugin is asked of each run whether it wants to hear of the end. */
  get areChoosy(): boolean {
    return this.#with('wants').length > 0
  }

  /** Asks every plugin, in load order, whether the turn may begin. Throws the first refusal. */
  async admit(run: RunAdmission): Promise<void> {
    for (const record of this.#active) {
      const refusal = mayRefuse(record) ? refusalOf(record) : undefined
      if (refusal) throw refusal
    }
    const asked = this.#with('admit')
    if (asked.length === 0) return
    let asking = ''
    await inTime(
      this.#admitMs,
      () => late(`${asking} did not decide`, this.#admitMs),
      async (signal) => {
        for (const record of asked) {
          asking = record.name
          await record.runs?.admit?.(run, contextOf(record, { signal, requestId: run.requestId }))
          signal.throwIfAborted()
        }
      },
    )
  }

  /** Tells every plugin of the run that is recorded in this transaction. */
  async begin(run: RunBeginning, trx: RunDatabase): Promise<void> {
    const { requestId } = run
    for (const record of this.#with('begin'))
      await inTime(
        this.#writeMs,
        () => late(`${record.name} did not come to an end of its writing`, this.#writeMs),
        async (signal) => record.runs?.begin?.(run, contextOf(record, { signal, requestId, trx })),
      )
  }

  /**
   * Who has to hear of the end of a run that begins in this transaction, or in the one statement that comes next: whoever does
   * not say that it wants none of it.
   */
  async wanting(
    run: RunBeginning,
    request: TurnRequest,
    trx: RunDatabase,
  ): Promise<readonly string[]> {
    const consumers = this.consumersOf(request)
    const choosy = this.#with('wants')
    if (choosy.length === 0) return consumers
    const spared = new Set<string>()
    for (const record of choosy)
      if (!(await this.#isWanted(record, run, trx))) spared.add(record.name)
    return consumers.filter((name) => !spared.has(name))
  }

  async #isWanted(record: PluginRecord, run: RunBeginning, trx: RunDatabase): Promise<boolean> {
    const own = { requestId: run.requestId, trx }
    try {
      return await inTime(
        this.#writeMs,
        () => late(`${record.name} did not say which ends it wants`, this.#writeMs),
        async (signal) =>
          (await record.runs?.wants?.(run, contextOf(record, { ...own, signal }))) !== false,
      )
    } catch {
      return true // it hears of an end too many, and of none too few
    }
  }

  /** Tells a consumer of the end of a run, in the transaction that settles the run for that consumer. */
  async end(consumer: string, run: RunEnding, trx: RunDatabase): Promise<void> {
    const part = this.#kernel.get(consumer)
    const record = this.#with('end').find(({ name }) => name === consumer)
    const requestId = run.runId
    await inTime(
      this.#writeMs,
      () =>
        new Error(
          `${consumer} did not come to an end of its writing within ${this.#writeMs / 1000} s.`,
        ),
      async (signal) => {
        if (part) await part.end(run, trx)
        else if (record)
          await record.runs?.end?.(run, contextOf(record, { signal, requestId, trx }))
        else throw new RuntimeError('UNAVAILABLE', `${consumer} is not at work.`)
      },
    )
  }

  /** Tells every plugin that keeps something of sessions, in the transaction that deletes one. */
  async deleted(session: { sessionId: string; did: string }, trx: RunDatabase): Promise<void> {
    for (const record of this.#keepers) {
      if (!isActive(record)) continue
      const refusal = record.base ? undefined : refusalOf(record)
      // What a plugin keeps whose setup has failed is out of reach, and sessions can be deleted all the same.
      if (refusal && record.state === 'failed') continue
      if (refusal) throw refusal
      await inTime(
        this.#writeMs,
        () => late(`${record.name} did not come to an end of its writing`, this.#writeMs),
        async (signal) =>
          record.definition.sessionDeleted?.(
            Object.freeze({ ...session }),
            contextOf(record, { signal, requestId: '', trx }),
          ),
      )
    }
  }

  get #active(): PluginRecord[] {
    return this.#records.filter(isActive)
  }

  #with(kind: Kind): PluginRecord[] {
    return this.#records.filter(
      (record) => isActive(record) && isOpen(record) && record.runs?.[kind],
    )
  }
}

/** Whether turns wait for the plugin. A section `runs` that is a function is not known before the plugin's setup. */
function mayRefuse({ runs, definition, base }: PluginRecord): boolean {
  if (typeof definition.runs === 'function' && !base) return true
  return runs?.admit !== undefined || runs?.begin !== undefined
}

/** What the functions of a plugin reach. */
function contextOf(
  record: PluginRecord,
  own: { readonly signal: AbortSignal; readonly requestId: string; readonly trx?: RunDatabase },
): AnyRunContext {
  const { base } = record
  if (base === undefined) throw new RuntimeError('UNAVAILABLE', 'The plugin is not set up.')
  const { signal, requestId, trx } = own
  const common = { signal, requestId, audit: () => undefined }
  if (trx === undefined)
    return { ...base, ...record.modelsWithin?.({ signal: () => signal }), ...common }
  // The plugin has types for its own tables, so the transaction is handed over without those of the kernel.
  const db: Parameters<Save>[0] = trx
  return { ...base, ...inTransaction, ...common, db, jobs: base.jobs.within(trx) }
}

const late = (what: string, ms: number) =>
  new RuntimeError('ADMISSION_TIMEOUT', `${what} within ${ms / 1000} s.`, {
    hint: 'Send the message again in a moment.',
    headers: { 'Retry-After': '5' },
  })

/** Waits for the work for so many milliseconds, then fires the work's signal and throws the error that `over` makes. */
async function inTime<T>(
  ms: number,
  over: () => Error,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const stopping = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const isOver = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const error = over()
      stopping.abort(error)
      reject(error)
    }, ms)
  })
  try {
    return await Promise.race([work(stopping.signal), isOver])
  } finally {
    clearTimeout(timer)
  }
}
