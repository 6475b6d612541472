import type { RunEnding } from './events.ts'
import type { OracleError } from './error.ts'

/** The tools of a plugin as `ToolsOf<typeof plugin>` gives them; anything where nothing is said. */
export type AnyTools = Record<string, { input: unknown; output: unknown }>

/** A tool call of a message. `result` is `output` read as JSON. */
export type ToolCallOf<Tools> = {
  [Name in keyof Tools & string]: {
    readonly id: string
    readonly name: Name
    readonly args: Tools[Name] extends { input: infer Input } ? Input : unknown
    readonly status?: 'isRunning' | 'done' | 'error'
    readonly output?: string
    readonly error?: string
    readonly result?: Tools[Name] extends { output: infer Output } ? Output : unknown
  }
}[keyof Tools & string]

export type ToolCall = ToolCallOf<AnyTools>

/** A place in a message's content where a component stands. It is data: `renderMessageContent` renders it. */
export interface IComponentMetadata {
  readonly name: string
  readonly props: {
    readonly id: string
    readonly args: unknown
    readonly status?: 'isRunning' | 'done' | 'error'
    readonly output?: string
    readonly error?: string
    readonly toolName: string
    readonly sessionId: string
    readonly isToolCall?: boolean
    readonly isAgAction?: boolean
  }
}

export type MessageContent = string | IComponentMetadata | (string | IComponentMetadata)[]

export interface Attachment {
  readonly filename: string
  readonly mimetype: string
  readonly mxcUri?: string
  readonly eventId?: string
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
  /** The model still thinks. */
  readonly isReasoning?: boolean
  /** False while it streams, and for a reply that was cut short. */
  readonly isComplete?: boolean
  readonly createdAt?: string
  readonly attachments?: readonly Attachment[]
}

export type ChatStatus = 'submitted' | 'streaming' | 'ready' | 'error'
export type StreamingMode = 'batched' | 'immediate'

/** The run behind the present or last turn. */
export interface ChatRunState {
  readonly runId: string | null
  readonly requestId: string | null
  /** The connection is lost and being made again. */
  readonly reconnecting: boolean
  /** How often another process took the run over. */
  readonly resumed: number
  readonly ended: RunEnding | 'disconnected' | null
  /** The last tool that failed in it. */
  readonly toolError: OracleError | null
}

/** Something that the oracle has read and that others wrote: a tool's result, an attachment, the answer of a page. */
export interface ForeignSource {
  readonly kind: 'tool' | 'attachment' | 'page'
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
  /** What of others was read before it was asked for, and the same as a sentence. Show it: it may be what asks. */
  readonly foreign?: readonly ForeignSource[]
  readonly reason?: string
}

export interface IChatSession {
  readonly sessionId: string
  readonly title?: string
  readonly createdAt: string
  readonly lastUpdatedAt: string
  readonly oracleName: string
  readonly oracleDid: string
  readonly oracleEntityDid?: string
  readonly roomId?: string
}

/** What an oracle says about itself. */
export interface OracleConfig {
  readonly apiUrl: string
  readonly wsUrl: string
  readonly did?: string
  readonly name?: string
  readonly model?: string
  readonly price?: string | null
}

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
  readonly missing?: readonly string[]
  readonly whenToUse: readonly string[]
  readonly promptBytes: number
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

/** A token, and until when it is good (milliseconds since 1970). */
export interface Serialized {
  readonly serialized: string
  readonly expiresAt: number
}

export interface IWalletProps {
  readonly address: string
  readonly did: string
  readonly matrix: { readonly accessToken: string; readonly homeServer: string }
}

export type TransactionFn = (messages: readonly unknown[], memo?: string) => Promise<unknown>
export type MintFn = (oracleDid: string) => Promise<Serialized>

/** Where an oracle answers, when that is not to be looked up. */
export interface Overrides {
  readonly baseUrl?: string
  readonly wsUrl?: string
}
