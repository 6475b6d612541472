import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { RuntimeError } from '../../errors.ts'
import type { Lease, LeasedWork, Log } from '../../plugin.ts'
import type { Store } from '../store/store.ts'
import { Holding } from './holding.ts'
import { LeaseTable } from './tables.ts'

/** What the leases of an app are made of. */
export interface LeasesOptions {
  readonly store: Pick<Store, 'db' | 'kind' | 'listen' | 'notify'>
  readonly log: Log
  readonly leaseMs: number
}

/** The channel on which replicas tell each other of leases that are free. */
const leasesChannel = 'kernel_leases'
/** How many leases one plugin may ask for. */
const mostPerPlugin = 100
const longestName = 100

/** The leases of the plugins of an app: work without an end that one process at a time does. */
export class Leases {
  readonly #options: LeasesOptions
  readonly #table: LeaseTable
  readonly #owner = randomUUID()
  readonly #holdings = new Map<string, Holding>()
  #listening: Promise<() => Promise<void>> | undefined
  #isClosed = false

  constructor(options: LeasesOptions) {
    this.#options = options
    this.#table = new LeaseTable(options.store, options.leaseMs)
  }

  /** `lease` of a plugin. */
  take(plugin: string, name: string, work: LeasedWork): Lease {
    const { leaseMs, log } = this.#options
    const key = `${plugin} ${this.#checked(plugin, name, work)}`
    const holding = new Holding({
      table: this.#table,
      row: { plugin, name, owner: this.#owner, holder: `${hostname()}:${process.pid}` },
      leaseMs,
      work,
      log,
      tellFree: async () => {
        const { store } = this.#options
        if (store.kind === 'postgres') await store.notify(leasesChannel, key)
      },
    })
    this.#holdings.set(key, holding)
    this.#listen()
    return holding
  }

  /** Ends all work and lets go of every lease. */
  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#holdings.values()].map((holding) => holding.close()))
    await (
      await this.#listening
    )?.()
  }

  /** Ends all work as the death of the process would. */
  drop(): void {
    this.#isClosed = true
    for (const holding of this.#holdings.values()) holding.drop()
  }

  #checked(plugin: string, name: unknown, work: unknown): string {
    const fault = (message: string, hint: string) =>
      new RuntimeError('INPUT_INVALID', message, { hint })
    if (typeof name !== 'string' || !/^[\w.:-]+$/.test(name) || name.length > longestName)
      throw fault(
        `${plugin} asked for a lease whose name is none.`,
        `A name has 1 to ${longestName} letters, digits and signs of _.:-`,
      )
    if (typeof work !== 'function')
      throw fault(
        `The lease "${name}" of ${plugin} has no work.`,
        'Write lease(name, async (held) => …).',
      )
    const own = [...this.#holdings.keys()].filter((key) => key.startsWith(`${plugin} `))
    if (own.includes(`${plugin} ${name}`))
      throw fault(
        `${plugin} asked twice for the lease "${name}".`,
        'Each lease has a name of its own.',
      )
    if (own.length >= mostPerPlugin)
      throw fault(
        `${plugin} asked for more than ${mostPerPlugin} leases.`,
        'Let one lease do more.',
      )
    if (this.#isClosed) throw new RuntimeError('UNAVAILABLE', 'The server is closing.')
    return name
  }

  /** Hears of leases that another process lets go. A word that is lost is made up for by the next look. */
  #listen(): void {
    const { store, log } = this.#options
    if (store.kind !== 'postgres') return
    this.#listening ??= store
      .listen(leasesChannel, (key) => this.#holdings.get(key)?.nudge())
      .catch((err: unknown) => {
        log.warn({ err }, 'Leases are looked for by the clock alone')
        return async () => undefined
      })
  }
}
