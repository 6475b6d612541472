import type { z } from 'zod'
import type { Embeddings, Message, Model, ModelSettings, ModelUsage } from '../model.ts'
import type { Schema } from '../schema.ts'

/** A line of what a model is asked aside: words alone, or a message of a conversation. */
export type AskedLine =
  { readonly role: 'system' | 'user' | 'assistant'; readonly content: string } | Message

/** What a model is asked aside: words, or lines that begin with the user and end with what is to be answered. 1 MiB at most. */
export type AskedPrompt = string | readonly AskedLine[]

/** How a model is asked aside. */
export interface AskOptions extends Pick<
  ModelSettings,
  'temperature' | 'topP' | 'maxOutputTokens' | 'reasoning'
> {
  /** What the model reads before the prompt, with the voice of the system. */
  readonly system?: string
  /** Ends the question, beside the signal of the handler, which always does. */
  readonly signal?: AbortSignal
  /** How long the answer may take, in milliseconds: 60,000 by default, 600,000 at most. Then it is MODEL_TIMEOUT. */
  readonly timeoutMs?: number
}

/**
 * A model that handlers ask for words or for a value. It is asked as a turn asks: along its chain, with its settings and its
 * attempts. A turn may ask 100 times.
 */
export interface AskableModel extends Model {
  /** The model's answer in words. Nothing of the conversation goes along that is not in the prompt. */
  text(prompt: AskedPrompt, options?: AskOptions): Promise<string>
  /**
   * The model's answer as a value that the schema has parsed. A model that answers with something else may mend it once;
   * then it is MODEL_ANSWER_INVALID. MODEL_SMALL answers where it is set and no other model was named.
   */
  object<S extends Schema>(
    schema: S,
    prompt: AskedPrompt,
    options?: AskOptions,
  ): Promise<z.core.output<S>>
}

/** What texts are made into vectors for. */
export interface EmbedOptions {
  /** `query` for what is looked for, `document` for what is found: some models make other vectors of the two. */
  readonly kind: 'query' | 'document'
  /** Ends the work, beside the signal of the handler, which always does. */
  readonly signal?: AbortSignal
}

/** Texts as vectors, and what made them. */
export interface Embedded extends Embeddings {
  /** What made the vectors. Who stores vectors stores this beside them: those of two models cannot be compared. */
  readonly model: string
  /** How many numbers each vector has. */
  readonly dimensions: number
  readonly usage: ModelUsage
}

/** The models of the app. */
export interface OfferedModels {
  /** The model of an id of MODEL; without an id the default. Throws MODEL_UNKNOWN, which lists the ids. */
  get(id?: string): AskableModel
  /** A vector for each text, in the order of the texts, by what EMBEDDING_MODEL names: 2,048 texts and 8 MiB at most. */
  embed(texts: readonly string[], options: EmbedOptions): Promise<Embedded>
}
