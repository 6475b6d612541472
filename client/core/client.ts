import type { RegisteredAction } from './page.ts'
import { Chat } from './chat/chat.ts'
import { OracleError } from './error.ts'
import type {
  Capabilities,
  IWalletProps,
  MintFn,
  ModelInfo,
  OracleConfig,
  Overrides,
  TransactionFn,
} from './records.ts'
import type { TabStorage } from './chat/tab-memory.ts'
import { ask, askAs, type Call, readJson, trimmed } from './request.ts'
import { Resource } from './resource.ts'
import { Sessions } from './sessions.ts'
import { type Timing, usualTiming } from './timing.ts'
import { Tokens } from './tokens.ts'

/** The user's wallet, and the functions by which the client asks the wallet for tokens. */
export interface OracleClientOptions {
  readonly wallet: IWalletProps
  readonly createDelegation: MintFn
  readonly createInvocation?: MintFn
  readonly transactSignX?: TransactionFn
  /** The address of a DID resolver (the W3C HTTP binding) by which the client finds oracles. */
  readonly resolverUrl?: string
  /** Where a tab remembers its runs over a reload; `sessionStorage` without it. */
  readonly storage?: TabStorage
  readonly timing?: Partial<Timing>
  /**
   * Whether tokens outlive a reload, encrypted in IndexedDB under keys that nothing can export; by itself where the page came by
   * https or from this machine.
   */
  readonly keepTokens?: boolean
  /** How many of the newest messages a chat reads at first, or `all`, the default. The kit reads 50, unless this says `all`. */
  readonly history?: number | 'all'
}

/** Names a chat: an oracle, and a session with it. */
export interface ChatAddress {
  readonly oracleDid: string
  readonly sessionId: string
  readonly overrides?: Overrides
}

/** The models that an oracle offers, and the one that answers where the user chose none. */
export interface Models {
  readonly models: readonly ModelInfo[]
  readonly default: string
}

/** The code that finds oracles, which comes when one is looked for. */
export const resolving = () => import('../later/resolve.ts')

/** A page whose code for that cannot be fetched keeps nothing. */
const keptTokens = (did: string) =>
  import('../later/kept-tokens.ts').then(
    ({ KeptTokens }) => new KeptTokens(did),
    () => undefined,
  )

/** The library without React: the stores of one user, to read and to follow. */
export class OracleClient {
  readonly wallet: IWalletProps
  readonly tokens: Tokens
  readonly actions = new Map<string, RegisteredAction>()
  readonly transactSignX: TransactionFn
  /** What the client was made with. */
  readonly options: OracleClientOptions
  readonly #timing: Timing
  readonly #things = new Map<string, unknown>()
  readonly #models = new Map<string, string | undefined>()

  constructor(options: OracleClientOptions) {
    this.options = options
    this.wallet = options.wallet
    this.#timing = { ...usualTiming, ...options.timing }
    const { keepTokens = globalThis.isSecureContext } = options
    this.tokens = new Tokens(
      (kind) => (kind === 'delegation' ? options.createDelegation : options.createInvocation),
      keepTokens ? () => this.once('kept tokens', () => keptTokens(this.wallet.did)) : undefined,
    )
    this.transactSignX =
      options.transactSignX ??
      (() => Promise.reject(new OracleError('invalid_request', 'There is no signer.')))
  }

  /** Where an oracle answers, from its DID. */
  config(oracleDid: string, overrides: Overrides = {}): Resource<OracleConfig> {
    const { baseUrl, wsUrl } = overrides
    const apiUrl = baseUrl && trimmed(baseUrl)
    return this.#once('config', oracleDid, overrides, () => {
      return new Resource(async (self) => {
        if (apiUrl) return { apiUrl, wsUrl: wsUrl ?? apiUrl }
        return (await resolving()).resolveOracle(self, oracleDid, this.options, wsUrl)
      })
    })
  }

  /** One session with an oracle; every caller gets the same store. */
  chat({ oracleDid, sessionId, overrides = {} }: ChatAddress): Chat {
    return this.#once(`chat ${sessionId}`, oracleDid, overrides, () => {
      const { tokens, actions, options } = this
      return new Chat({
        oracleDid,
        sessionId,
        userDid: this.wallet.did,
        tokens,
        actions,
        timing: this.#timing,
        storage: () => options.storage ?? sessionStorage,
        config: () => this.config(oracleDid, overrides).read(),
        model: () => this.#models.get(oracleDid),
        history: options.history,
      })
    })
  }

  /** The components that the page lends the chats of a session. */
  components(sessionId: string): Chat['components'] {
    const shown = [...this.#things.values()].filter(
      (one) => one instanceof Chat && one.sessionId === sessionId,
    )
    return Object.assign({}, ...(shown as Chat[]).map(({ components }) => components))
  }

  /** The user's sessions with an oracle; every caller with the same `limit` gets the same store. */
  sessions(oracleDid: string, overrides: Overrides = {}, limit = 20): Sessions {
    return this.#once(
      `sessions ${limit}`,
      oracleDid,
      overrides,
      () => new Sessions((path, call) => this.request(oracleDid, path, call, overrides), limit),
    )
  }

  /** The models that an oracle offers. */
  models(oracleDid: string, overrides: Overrides = {}): Resource<Models> {
    const load = async () => {
      const { apiUrl } = await this.config(oracleDid, overrides).read()
      return readJson<Models>({}, (call) => ask(`${apiUrl}/models`, call))
    }
    return this.#once('models', oracleDid, overrides, () => new Resource(load))
  }

  /** Chooses the model of the turns to come; without a name the oracle chooses. */
  useModel(oracleDid: string, model: string | undefined): void {
    this.#models.set(oracleDid, model)
  }

  /** The model that the user chose for an oracle, if any. */
  chosenModel(oracleDid: string): string | undefined {
    return this.#models.get(oracleDid)
  }

  /** What an oracle can do, and in a session, what of it is loaded. */
  capabilities({ oracleDid, sessionId, overrides = {} }: ChatAddress): Resource<Capabilities> {
    const path = `/capabilities${sessionId && `?sessionId=${encodeURIComponent(sessionId)}`}`
    const load = () => this.request<Capabilities>(oracleDid, path, {}, overrides)
    return this.#once(`capabilities ${sessionId}`, oracleDid, overrides, () => new Resource(load))
  }

  /** Any request to an oracle, as its user: a path of its API, or a whole address. */
  async request<T>(
    oracleDid: string,
    path: string,
    call: Call = {},
    overrides?: Overrides,
  ): Promise<T> {
    const url = /^https?:/.test(path)
      ? path
      : (await this.config(oracleDid, overrides).read()).apiUrl + path
    return readJson<T>(call, (bounded) => askAs(this.tokens, oracleDid, url, bounded))
  }

  /** Makes a thing at the first call with a key; every later call with that key gets the same thing. */
  once<T>(key: string, make: () => T): T {
    if (!this.#things.has(key)) this.#things.set(key, make())
    return this.#things.get(key) as T
  }

  #once<T>(kind: string, oracleDid: string, { baseUrl, wsUrl }: Overrides, make: () => T): T {
    return this.once(JSON.stringify([kind, oracleDid, baseUrl, wsUrl]), make)
  }
}

/** Makes a client for one user; React apps have one in their `OraclesProvider`. */
export function createOracleClient(options: OracleClientOptions): OracleClient {
  return new OracleClient(options)
}
