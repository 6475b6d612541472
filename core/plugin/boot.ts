import type { Database, Fetch, Log } from './context.ts'
import type { MaybePromise } from './schema.ts'
import type { Turns } from './turns.ts'

/** Who the oracle is to others. */
export interface Oracle {
  /** The DID that the oracle goes by. */
  readonly did: string
  /** Other DIDs of the oracle: that of its key, that of its entity. */
  readonly aliases: readonly string[]
  /**
   * The Ed25519 keys, as did:keys, that may sign for a DID: none where they cannot be known. Only the resolver of the
   * oracle is asked, never an address that stands in the DID.
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
    /** The signature of bytes: what the plugin signs, the oracle has said. */
    sign(bytes: Uint8Array): Uint8Array
  }
}

/** What `setup` gets, once, at boot. */
export interface Boot<Env = unknown, Peers = unknown> {
  /** The plugin's variables, parsed. */
  readonly env: Env
  /** The log of the plugin. */
  readonly log: Log
  /** The database, with the plugin's migrations done. */
  readonly db: Database
  /** The network. */
  readonly fetch: Fetch
  /** What the plugins named in `requires` returned from their `setup`, by plugin name. */
  readonly plugins: Peers
  /** Starts turns for messages that came from elsewhere. */
  readonly turns: Turns
  /** Who the oracle is. */
  readonly oracle: Oracle
  /**
   * Whether a text holds what would authenticate a caller here: a key of this server, or a UCAN of anybody. A plugin
   * that passes on what a client sent asks this first, and leaves out each text that holds such a thing.
   */
  holdsCredential(text: string): boolean
  /** Hands over work that goes on after the server answers. `what` says what to check when the work takes long. */
  pending(promise: Promise<unknown>, what: string): void
  /** Registers a function that the runtime calls when it closes, in reverse order of boot. */
  onClose(close: () => MaybePromise<void>): void
  /** Registers a check that `/health` asks, within a second: it returns when well and throws a sentence when not. */
  health(check: () => MaybePromise<void>): void
}

/** What the function form of `tools`, `routes` and `web` gets: they may depend on what boot found. */
export interface Booted<Env = unknown, Self = unknown, Peers = unknown> extends Omit<
  Boot<Env, Peers>,
  'pending' | 'onClose' | 'health'
> {
  /** What `setup` returned. */
  readonly self: Self
}
