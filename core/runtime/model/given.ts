import { RuntimeError } from '../../errors.ts'
import type { Model } from '../../plugin.ts'
import { AiSdkLanguageModel } from './sdk/language-model.ts'
import { isAiSdkModel, type AiSdkModel } from './sdk/shape.ts'
import { Chain } from './chain.ts'
import { isLangChainModel, LangChainModel, type LangChainChatModel } from './langchain.ts'

/** What createApp takes as a model: a `Model` of the runtime, any chat model of LangChain, or any language model of the AI SDK. */
export type GivenModel = Model | LangChainChatModel | AiSdkModel

/** The most models of one chain. */
const mostMembers = 5

/** A given model as one of ours. Throws MODEL_UNUSABLE for what is none. */
export function asModel(given: GivenModel): Model {
  if (isLangChainModel(given)) return new LangChainModel(given)
  if (isAiSdkModel(given)) return new AiSdkLanguageModel(given)
  if (typeof given?.id === 'string' && typeof given.stream === 'function') return given
  throw new RuntimeError('MODEL_UNUSABLE', 'What was given as a model has no id and stream().', {
    hint: 'Give a model of this runtime, a chat model of LangChain, a language model of the AI SDK, or set MODEL.',
  })
}

/** Several models that stand in for one: where the first cannot answer, the next takes over, and never after a word. */
export function chain(models: readonly GivenModel[]): Model {
  const [first, ...rest] = models.map(asModel)
  if (!first || rest.length >= mostMembers)
    throw new RuntimeError('MODEL_UNUSABLE', `A chain has 1 to ${mostMembers} models.`)
  return new Chain(first.id, [first, ...rest])
}

/** Whether several models were given. */
export function isList(given: GivenModel | readonly GivenModel[]): given is readonly GivenModel[] {
  return Array.isArray(given)
}
