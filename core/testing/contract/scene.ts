import type { Model, ModelSettings, ModelUsage } from '../../plugin.ts'

/**
 * How a provider of tests answers one request of the contract: with words and calls, with a failure, with silence, or by
 * breaking the connection. A real provider answers as it likes.
 */
export type ContractAnswer = ContractSpeech | ContractFailure | 'silence' | 'break'

/** What the provider's model says in one answer. */
export interface ContractSpeech {
  readonly text?: string
  /** Instead of a text: the type and the bytes of each file of the request, as `image/png 70`. */
  readonly describes?: boolean
  /** What the model thinks first; the provider signs it, where its wire has signatures. */
  readonly reasoning?: string
  /** The calls; one without a name is what a broken server sends. */
  readonly calls?: readonly { readonly name: string | null; readonly args?: unknown }[]
  /** What the call cost; several are reported one after the other. */
  readonly usage?: ModelUsage | readonly ModelUsage[]
  readonly unsigned?: boolean
  readonly signatureBytes?: number
  readonly bytesPerWrite?: number
  readonly then?: 'silence' | 'break' | { readonly error: string; readonly status?: number }
}

/** An answer that is a failure. */
export interface ContractFailure {
  readonly status: number
  readonly times?: number
  readonly retryAfter?: number
  readonly why?: 'quota' | 'content' | 'context'
  readonly body?: string
}

/** What one check of the contract wants of the provider. */
export interface ContractScene {
  /** The name of the check. */
  readonly name: string
  /** The answers, one for each request that the model may make. */
  readonly answers: readonly ContractAnswer[]
}

/**
 * Gives the model for one check, or `undefined` where its provider cannot be brought to the scene. With a provider of
 * tests: tell it the scene's answers first.
 */
export type OpenModel = (scene: ContractScene) => Model | undefined | Promise<Model | undefined>

/** What the contract is asked with. */
export interface ContractOptions {
  /** The provider is a real one: what it cannot be brought to is left out, and what it says is not compared. */
  readonly real?: boolean
  /** The key of the provider, which may stand in no error. */
  readonly key?: string
  /** What every call is asked with, such as `{ reasoning: 'low' }`, without which many models sign nothing. */
  readonly settings?: ModelSettings
  /** The names of the checks to make; by default all. */
  readonly only?: readonly string[]
}

/** What came of the contract. */
export interface ContractReport {
  /** What the model does not do as it must, a sentence each. None: the model keeps the contract. */
  readonly findings: readonly string[]
  /** The names of the checks that were made. */
  readonly checked: readonly string[]
  /** The checks that were not made or not to their end, each with its reason. */
  readonly skipped: readonly string[]
}
