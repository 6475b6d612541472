import type { OfferedModels } from './models/asking.ts'
import type { Database, Fetch, Log } from './context.ts'
import type { Jobs, UnknownInputs } from './jobs.ts'
import type { Metrics } from './metrics/metrics.ts'
import type { Lease, LeasedWork } from './leases/lease.ts'
import type { PricedModel } from './model.ts'
import type { OutsideTools } from './outside/tools.ts'
import type { MaybePromise } from './schema.ts'
import type { PluginSessions, Rooms } from './sessions.ts'
import type { Turns } from './turns.ts'

/** A plugin as it tells of itself. */
export interface CapabilityFacts {
  readonly name: string
  readonly summary: string
  /** Whether it is part of this app: neither left out nor excluded. */
  readonly isOn: boolean
  readonly whenToUse: readonly string[]
  /** What a user might say. */
  readonly examples: readonly string[]
  readonly tags: readonly string[]
  readonly category?: string
}

/** Who the oracle is to others. */
export interface Oracle {
  /** The name by which it speaks. */
  readonly name: string
  /** The DID that the oracle goes by. */
  readonly did: string
  /** Other DIDs of the oracle: that of its key, that of its entity. */
  readonly aliases: readonly string[]
  /**
   * The Ed25519 keys, as did:keys, that may sign for a DID: none where the DID has no known keys. The runtime asks only
   * the oracle's resolver, never an address that stands in the DID.
   */
  readonly keysOf: (did: string) => Promise<readonly string[]>
  /** Where clients find the oracle, without a slash at the end; known once the server listens. */
  readonly url: () => string
  /** The oracle's Ed25519 key, to sign what the oracle answers for. Absent while no signing mnemonic is loaded. */
  readonly key?: {
    /** The did:key of the key, which is not the oracle's DID where that is a registered one. */
    readonly did: string
    /** The 32 bytes that others check signatures with. */
    readonly publicKey: Uint8Array
    /** Signs bytes. A signature by this key is the oracle's word: sign only what the oracle answers for. */
    sign(bytes: Uint8Array): Uint8Array
  }
}

/** What `setup` gets, once, at boot. */
export interface Boot<
  Env = unknown,
  Peers = unknown,
  Inputs = UnknownInputs,
  State = Record<string, unknown>,
> {
  /** The plugin's variables, parsed. */
  readonly env: Env
  /** The log of the plugin. */
  readonly log: Log
  /** The database, with the plugin's migrations done. */
  readonly db: Database
  /** The network. */
  readonly fetch: Fetch
  /** What the plugins named in `requires` and `uses` returned from their `setup`, by plugin name. */
  readonly plugins: Peers
  /** Starts turns: for messages that came from elsewhere, and for what the plugin wants asked. */
  readonly turns: Turns
  /** Finds and makes sessions of users, and says something in them without a model. */
  readonly sessions: PluginSessions
  /** The tools of all plugins, to be called without a model. They answer once every plugin is set up. */
  readonly tools: OutsideTools
  /** Asks for jobs of the plugin: work that outlives the process. */
  readonly jobs: Jobs<Inputs>
  /** Makes figures of the plugin, which stand at `GET /metrics`. */
  readonly metrics: Metrics
  /** What the models of the app cost, those of chains one by one. */
  readonly prices: readonly PricedModel[]
  /** The models of the app: they answer once every plugin is set up. */
  readonly models: OfferedModels
  /** The time. Ask here and not `new Date()`, so that a test can move it. */
  now(): Date
  /** The plugin's room-scoped state, outside a turn. */
  readonly rooms: Rooms<State>
  /** NODE_ENV. In production a plugin makes up nothing: no keys, no stand-ins for what it is to reach. */
  readonly environment: 'development' | 'test' | 'production'
  /** Who the oracle is. */
  readonly oracle: Oracle
  /**
   * Whether a text holds what would authenticate a caller here: a key of this server, or a UCAN of anybody. A plugin
   * that passes on what a client sent asks this first, and leaves out each text that holds such a thing.
   */
  holdsCredential(text: string): boolean
  /** What the plugins say of themselves that are not silent, those too that did not load. In a function of `onReady` none is missing. */
  capabilities(): readonly CapabilityFacts[]
  /** The names of the tools of all plugins that are on. In a function of `onReady` none is missing. */
  toolNames(): readonly string[]
  /**
   * Hands over work that goes on after the server answers. `what` says what to check when the work takes long: a sentence, or a
   * function that tells the sentence of the moment. Until the
   * work is done the plugin serves nothing: its routes and web modules answer 503, and no turn sees its tools, its prompt
   * and its middleware. With `gates: false` the plugin serves all the while.
   */
  pending(
    promise: Promise<unknown>,
    what: string | (() => string),
    options?: { readonly gates?: boolean },
  ): void
  /**
   * Registers a function that the runtime calls once: when the setups of all plugins have returned, the pending work of
   * this plugin is done and the server answers. `signal` fires when the server closes. A function that throws becomes a
   * line of the log and a note in `/health`.
   */
  onReady(call: (signal: AbortSignal) => MaybePromise<void>): void
  /**
   * Has one process at a time do work that has no end. This process begins when it holds the lease of the name, at once where
   * nobody does; `signal` of the work fires when another process has it, and when the server closes.
   */
  lease(name: string, work: LeasedWork): Lease
  /** Registers a function that the runtime calls when it closes, in reverse order of boot. It has ten seconds. */
  onClose(close: () => MaybePromise<void>): void
  /**
   * Registers a check that `/health` asks, within a second: the check throws a sentence when the plugin is not well. What it
   * returns while the plugin is well, a sentence of up to 300 characters, stands among the notes.
   */
  health(check: () => MaybePromise<string | void>): void
}

/** What the function form of `tools`, `routes` and `web` gets, for sections that depend on what boot found. */
export interface Booted<
  Env = unknown,
  Self = unknown,
  Peers = unknown,
  Inputs = UnknownInputs,
  State = Record<string, unknown>,
> extends Omit<
  Boot<Env, Peers, Inputs, State>,
  'pending' | 'onReady' | 'lease' | 'onClose' | 'health' | 'toolNames' | 'capabilities'
> {
  /** What `setup` returned. */
  readonly self: Self
}
