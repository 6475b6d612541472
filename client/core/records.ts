import type { EarlyEnd, RunEnding } from './events.ts'
import type { OracleError } from './error.ts'

/** The tools of a chat without types of its own; `ToolsOf<typeof plugin>` has the types of a plugin's tools. */
export type AnyTools = Record<string, { input: unknown; output: unknown }>

/** A call of one of these tools in a message. `result` is `output` read as JSON. */
export type ToolCallOf<Tools> = {
  [Name in keyof Tools & string]: {
    readonly id: string
    readonly name: Name
    readonly args: Tools[Name] extends { input: infer Input } ? Input : unknown
    readonly status?: 'isRunning' | 'done' | 'error'
    /** It is not carried out before a person has answered. */
    readonly waits?: true
    readonly output?: string
    readonly error?: string
    readonly parts?: readonly ResultPart[]
    readonly result?: Tools[Name] extends { output: infer Output } ? Output : unknown
  }
}[keyof Tools & string]

/** A picture, a sound or a file that a tool gave; `GET /files/:fileId` has its bytes. */
export interface ResultPart {
  readonly type: 'image' | 'audio' | 'file'
  readonly mediaType: string
  readonly name?: string
  readonly bytes: number
  readonly fileId: string
}

/** A call of any tool in a message. */
export type ToolCall = ToolCallOf<AnyTools>

/** A place in a message's content where a component stands: data from which `renderMessageContent` makes the component. */
export interface IComponentMetadata {
  readonly name: string
  readonly props: {
    readonly id: string
    readonly args: unknown
    readonly status?: 'isRunning' | 'done' | 'error'
    readonly output?: string
    readonly error?: string
    readonly parts?: readonly ResultPart[]
    readonly toolName: string
    readonly sessionId: string
    readonly isToolCall?: boolean
    readonly isAgAction?: boolean
  }
}

/** What a message says: text, components, or both. */
export type MessageContent = string | IComponentMetadata | (string | IComponentMetadata)[]

/** A file that the user sent with a message. */
export interface Attachment {
  readonly filename: string
  readonly mimetype: string
  readonly mxcUri?: string
  readonly eventId?: string
  /** A file of `POST /files`. */
  readonly fileId?: string
  /** An https address, or a data: URL with the contents. */
  readonly url?: string
  readonly size?: number
  readonly category?: string
}

/** A message of a chat. */
export interface IMessage<Tools = AnyTools> {
  readonly id: string
  readonly type: 'human' | 'ai'
  readonly content: MessageContent
  readonly toolCalls?: readonly ToolCallOf<Tools>[]
  readonly reasoning?: string
  /** The model is still thinking. */
  readonly isReasoning?: boolean
  /** False while the message streams, and for a reply that ended before its end. */
  readonly isComplete?: boolean
  /** The user of a call stopped listening where it ends. */
  readonly cut?: true
  readonly createdAt?: string
  readonly attachments?: readonly Attachment[]
  /** The id of the model that said it. While a reply streams: only where another model answers than the chosen one. */
  readonly model?: string
  /** The plugin whose words these are, where they are not the user's. */
  readonly origin?: string
  /** On the first message of a run: how the run stands, why it failed, and what it cost. */
  readonly run?: {
    readonly runId: string
    readonly status: string
    readonly code?: string
    readonly usage?: TurnUsage
  }
  /** On the last message of an answer that did not come to its own end, or that its length or a filter ended early. */
  readonly ended?: 'aborted' | 'interrupted' | 'failed' | EarlyEnd
}

/** What calls of models cost. */
export interface ModelUsage {
  /** All tokens that were read, with those of the provider's cache. */
  readonly inputTokens: number
  /** All tokens that were written, with those that were thought and not said. */
  readonly outputTokens: number
  readonly cachedTokens?: number
  readonly cacheWriteTokens?: number
  readonly reasoningTokens?: number
  /** The tokens are judged by the length of the texts: the provider did not count. */
  readonly estimated?: true
  /** Whole billionths of a US dollar, in digits; null or absent where nobody knows. */
  readonly cost?: string | null
}

/** What a whole turn cost, in all and for each model. */
export interface TurnUsage extends ModelUsage {
  readonly calls: number
  readonly models: readonly (ModelUsage & { readonly model: string; readonly calls?: number })[]
}

/** Where the turn of a chat stands. */
export type ChatStatus = 'submitted' | 'streaming' | 'ready' | 'error'
/** How often a chat renders while a reply streams: once in 50 ms, or for each event. */
export type StreamingMode = 'batched' | 'immediate'

/** The run behind the turn under way, or behind the last one. */
export interface ChatRunState {
  readonly runId: string | null
  readonly requestId: string | null
  /** The connection is lost, and the chat is making it again. */
  readonly reconnecting: boolean
  /** When the next try begins while the connection is lost, in milliseconds since 1970; undefined while a try is under way. */
  readonly retryAt?: number
  /** How often another process took the run over. */
  readonly resumed: number
  readonly ended: RunEnding | 'disconnected' | null
  /** The error of the last tool that failed in the run. */
  readonly toolError: OracleError | null
}

/**
 * Words of others that the oracle has read: a tool's result, an attachment, the answer of a page, what a plugin quoted, or a
 * summary of any of these.
 */
export interface ForeignSource {
  readonly kind: 'tool' | 'attachment' | 'page' | 'quoted' | 'summary'
  readonly tool?: string
  readonly plugin?: string
  readonly label?: string
}

/** A tool that waits for a person. */
export interface PendingApproval {
  readonly runId: string
  readonly toolCallId: string
  readonly toolName: string
  readonly args: Readonly<Record<string, unknown>>
  /** The sentence by which the tool itself asks. Show it above the arguments. */
  readonly question?: string
  /** Whose words the oracle had read before it made this call. Show the sources: those words may have asked for the call. */
  readonly foreign?: readonly ForeignSource[]
  /** The sources in `foreign` as one sentence. */
  readonly reason?: string
}

/** A conversation of the user with an oracle. The server has the same type; a test compares the two. */
export interface IChatSession {
  readonly sessionId: string
  readonly title?: string
  readonly createdAt: string
  readonly lastUpdatedAt: string
  /** The id of the model that was chosen last in it; without one the default answers. */
  readonly model?: string
  readonly oracleName: string
  readonly oracleDid: string
  readonly oracleEntityDid?: string
  readonly roomId?: string
  /** Whether its user keeps it above all others, or has put it away. */
  readonly pinned?: boolean
  readonly archived?: boolean
  /** Where it branched off from another session. */
  readonly forkedFrom?: Readonly<Record<string, unknown>>
  /** How many notices of the session its user has not seen; in a list. */
  readonly unread?: number
}

/** What an oracle says about itself. */
export interface OracleConfig {
  readonly apiUrl: string
  readonly wsUrl: string
  readonly did?: string
  readonly name?: string
  readonly model?: string
  readonly price?: string | null
  /** What a user grants who contracts the oracle, where it can be paid. */
  readonly authConfig?: AuthzConfig
  /** Nothing answers now, and this is what was known last. */
  readonly isStale?: boolean
}

/** What a user grants who contracts an oracle: to whom, and for how long. */
export interface AuthzConfig {
  readonly granteeAddress: string
  readonly oracleName: string
  readonly requiredPermissions: readonly string[]
  readonly expirationDays: number
}

/** A model that an oracle offers. */
export interface ModelInfo {
  readonly id: string
  readonly label: string
  readonly isDefault: boolean
}

/** A plugin of the oracle, as `GET /capabilities` lists it. */
export interface Capability {
  readonly name: string
  readonly summary: string
  readonly visibility: 'always' | 'on-demand' | 'silent'
  readonly state: string
  readonly reason?: string
  readonly loaded?: boolean
  readonly stability: string
  readonly category?: string
  readonly requires: readonly string[]
  /** The plugins that this one uses where the oracle has them. A server from before `uses` says nothing. */
  readonly uses?: readonly string[]
  readonly missing?: readonly string[]
  readonly whenToUse: readonly string[]
  /** What a user might say. A server from before there were examples in the list says nothing. */
  readonly examples?: readonly string[]
  readonly promptBytes: number
  /** How many bytes its tools have in every call of a model once it is loaded. */
  readonly toolBytes?: number
  readonly tools: readonly {
    readonly name: string
    readonly description: string
    readonly effect: 'read' | 'write'
    readonly parameters: Readonly<Record<string, unknown>>
  }[]
  readonly routes: readonly {
    readonly route: string
    readonly auth: string
    readonly summary?: string
  }[]
}

/** What an oracle can do, and what its instructions take of the system prompt. */
export interface Capabilities {
  readonly plugins: readonly Capability[]
  /** How many bytes of the prompt say who the agent is. A server from before there were instructions says nothing. */
  readonly instructionsBytes?: number
}

/** A token, and when it expires in milliseconds since 1970. */
export interface Serialized {
  readonly serialized: string
  readonly expiresAt: number
}

/** The user whom a wallet speaks for. */
export interface IWalletProps {
  readonly address: string
  readonly did: string
  readonly matrix: { readonly accessToken: string; readonly homeServer: string }
}

/** A message of a transaction, by the name that its chain has for it. */
export interface LedgerMessage {
  readonly typeUrl: string
  readonly value: any // any: what the type says, so that a wallet typed for its chain's messages fits
}

/** Signs and broadcasts messages to a chain. */
export type TransactionFn = (messages: readonly LedgerMessage[], memo?: string) => Promise<unknown>
/** Makes a token for an oracle. */
export type MintFn = (oracleDid: string) => Promise<Serialized>

/** Where an oracle answers, for an app that does not look the address up by the DID. */
export interface Overrides {
  readonly baseUrl?: string | undefined
  readonly wsUrl?: string | undefined
}
