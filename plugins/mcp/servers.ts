import { RuntimeError, type Database, type Log } from '#core'
import type { Configuration, ServerConfig } from './config/config.ts'
import { Connection, unusable } from './connecting/connection.ts'
import { type KeptListing, Lists } from './lists.ts'
import { type Treatment, treatmentOf } from './tools/effect.ts'
import type { ListedTool } from './tools/listed.ts'
import { isWanted, namesOf } from './tools/names.ts'
import { valueOf } from './tools/result.ts'

/** What the servers need of the app. */
export interface ServersOptions {
  readonly configuration: Configuration
  readonly db: Database
  readonly log: Log
  readonly now: () => Date
  /** In production a tool that the operator has not accepted as it is asks before every call. */
  readonly pins: boolean
  /** Only for tests: how long a first connection and its first message may take, and after what time an idle one is closed. */
  readonly connectMs?: number
  readonly idleMs?: number
  readonly probeMs?: number
}

/** A tool as a turn has it. */
export interface OfferedTool {
  readonly name: string
  readonly tool: ListedTool
  readonly treatment: Treatment
}

/** What differs between a tool as it is and as the operator accepted it. */
export interface ChangedTool {
  readonly tool: string
  readonly change: 'new' | 'changed' | 'gone'
  readonly before?: ListedTool
  readonly now?: ListedTool
}

/** Less than the kernel waits for `toolsFor`, so that the model reads our sentence and not none. */
const firstListMs = 19_000

interface Known {
  readonly config: ServerConfig
  readonly connection: Connection
  /** The asking for the list that is under way. */
  listing?: Promise<KeptListing>
  /** How many tools the operator has not accepted as they are, by the last look. */
  unseen: number
  /** The server's own first sentence, as far as it is known. */
  about?: string
}

/** The MCP servers of the app. None is started or asked before a turn wants it. */
export class Servers {
  readonly configuration: Configuration
  readonly #options: ServersOptions
  readonly #lists: Lists
  readonly #known: ReadonlyMap<string, Known>

  constructor(options: ServersOptions) {
    const { configuration, db, log, now, connectMs, idleMs, probeMs } = options
    this.configuration = configuration
    this.#options = options
    this.#lists = new Lists(db, () => now().getTime())
    this.#known = new Map(
      configuration.servers.map((config) => [
        config.name,
        {
          config,
          connection: new Connection(config, {
            log,
            now: () => now().getTime(),
            onChanged: () => this.#renew(config.name),
            connectMs: connectMs ?? firstListMs,
            ...(idleMs !== undefined && { idleMs }),
            ...(probeMs !== undefined && { probeMs }),
          }),
          unseen: 0,
        },
      ]),
    )
  }

  /** Reads what the servers said of themselves before this process began. */
  async learn(): Promise<void> {
    if (this.#known.size === 0) return
    const about = await this.#lists.about()
    for (const known of this.#known.values()) known.about = about.get(known.config.fingerprint)
  }

  /** The server's own first sentence; undefined as long as nobody has asked it, and where it says nothing. */
  aboutOf(name: string): string | undefined {
    return this.#of(name).about
  }

  /** The tools of a server for a turn: those of its last list at once, and without one those that it lists now. */
  async offered(name: string): Promise<OfferedTool[]> {
    const known = this.#of(name)
    const { config } = known
    let kept = await this.#lists.read(config)
    if (!kept) kept = await this.list(name)
    else if (kept.listedAt + kept.ttlMs < this.#options.now().getTime()) this.#renew(name)
    known.about = kept.about
    return this.#treated(known, kept)
  }

  /** Asks a server for its tools. Those who ask at the same time get the same answer. */
  list(name: string): Promise<KeptListing> {
    const known = this.#of(name)
    const { connection, config } = known
    known.listing ??= this.#inTime(known, connection.list())
      .then((listing) => {
        known.about = listing.about
        return this.#lists.keep(config, listing)
      })
      .finally(() => (known.listing = undefined))
    return known.listing
  }

  /** Calls a tool of a server. */
  async call(
    name: string,
    { tool, treatment }: OfferedTool,
    args: Readonly<Record<string, unknown>>,
    options: Parameters<Connection['call']>[2],
  ): Promise<unknown> {
    const { connection } = this.#of(name)
    return valueOf(name, await connection.call(tool, args, options, treatment.effect === 'read'))
  }

  /** Throws the sentence of what is wrong with a server, by what is known of it. No server is asked. */
  async demandWell(name: string): Promise<void> {
    const known = this.#of(name)
    if (known.connection.fault) throw new Error(known.connection.fault)
    if (!this.#options.pins) return
    const kept = await this.#lists.read(known.config)
    if (kept) await this.#treated(known, kept)
    const { unseen } = known
    if (unseen > 0)
      throw new Error(
        `${name}: ${unseen} ${unseen === 1 ? 'tool' : 'tools'} changed. Look, then: npm run mcp -- accept ${name}`,
      )
  }

  /** What is known of each server, for the operator. */
  async states() {
    return Promise.all(
      [...this.#known.values()].map(async (known) => {
        const { config, connection } = known
        const kept = await this.#lists.read(config)
        const offered = kept ? await this.#treated(known, kept) : []
        return {
          name: config.name,
          way: config.way.kind,
          state: connection.fault ? 'failed' : connection.isOpen ? 'connected' : 'idle',
          ...(connection.fault && { fault: connection.fault }),
          ...(kept && { revision: kept.revision, listedAt: new Date(kept.listedAt).toISOString() }),
          ...(kept?.about && { about: kept.about }),
          unseen: known.unseen,
          tools: offered.map(({ name: tool, treatment }) => ({ name: tool, ...treatment })),
        }
      }),
    )
  }

  /** What differs from what the operator has accepted. */
  async changes(name: string): Promise<ChangedTool[]> {
    const { config } = this.#of(name)
    const kept = (await this.#lists.read(config)) ?? (await this.list(name))
    const accepted = await this.#lists.accepted(config)
    const now = new Map(kept.tools.map((tool) => [tool.name, tool]))
    const changes: ChangedTool[] = []
    for (const [tool, is] of now) {
      const before = accepted.get(tool)
      if (!before) changes.push({ tool, change: 'new', now: is })
      else if (before.hash !== is.hash) changes.push({ tool, change: 'changed', before, now: is })
    }
    for (const [tool, before] of accepted)
      if (!now.has(tool)) changes.push({ tool, change: 'gone', before })
    return changes
  }

  /** Accepts the tools of a server as it lists them now; resolves to what that changed. */
  async accept(name: string): Promise<ChangedTool[]> {
    const { config } = this.#of(name)
    const { tools } = await this.list(name)
    const changes = await this.changes(name)
    await this.#lists.accept(config, tools)
    return changes
  }

  async close(): Promise<void> {
    await Promise.all([...this.#known.values()].map(({ connection }) => connection.close()))
  }

  async #treated(known: Known, { tools }: KeptListing): Promise<OfferedTool[]> {
    const { name, oracle } = known.config
    const { pins } = this.#options
    const accepted = pins ? await this.#lists.accepted(known.config) : undefined
    const isSeen = (tool: ListedTool) => !accepted || accepted.get(tool.name)?.hash === tool.hash
    const wanted = tools.filter((tool) => isWanted(tool.name, oracle.tools))
    known.unseen = wanted.filter((tool) => !isSeen(tool)).length
    return [...namesOf(name, wanted)].map(([offered, tool]) => ({
      name: offered,
      tool,
      treatment: treatmentOf(tool.hints, oracle.trust, isSeen(tool)),
    }))
  }

  /** Asks for the list anew, while turns go on with the one before. */
  #renew(name: string): void {
    this.list(name).catch((err: unknown) =>
      this.#options.log.warn(
        { err, server: name },
        'the tools of an MCP server could not be renewed',
      ),
    )
  }

  async #inTime<T>({ connection }: Known, work: Promise<T>): Promise<T> {
    const ms = this.#options.connectMs ?? firstListMs
    const { promise, reject } = Promise.withResolvers<never>()
    const late = () => reject(unusable(connection.late(ms)))
    const timer = setTimeout(late, ms)
    work.catch(() => undefined)
    return Promise.race([work, promise]).finally(() => clearTimeout(timer))
  }

  #of(name: string): Known {
    const known = this.#known.get(name)
    if (known) return known
    throw new RuntimeError('NOT_FOUND', `There is no MCP server "${name}".`, {
      hint: `There are: ${[...this.#known.keys()].join(', ') || 'none'}.`,
    })
  }
}
