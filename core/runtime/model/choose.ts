import { RuntimeError } from '../../errors.ts'
import type { Model } from '../../plugin.ts'
import { demoModel } from './demo.ts'
import { isLangChainModel, LangChainModel, type LangChainChatModel } from './langchain.ts'
import { OpenAiModel } from './openai.ts'

/** What createApp takes as a model: a `Model` of the runtime, or any chat model of LangChain. */
export type GivenModel = Model | LangChainChatModel

interface ModelEnv {
  /** `demo`, `openai/<name>`, or several with commas between them, the default first. */
  readonly MODEL?: string
  readonly OPENAI_API_KEY?: string
  readonly OPENAI_BASE_URL?: string
}

/** The models that a turn can choose from. */
export interface Models {
  readonly default: Model
  readonly all: readonly Model[]
  /** The model of an id, or of the part after the slash; without an id the default. Throws MODEL_UNKNOWN, which lists the ids. */
  get(id?: string): Model
}

/**
 * Chooses the models that the app was given, or else those that the environment names. When the app cannot use one of
 * them, the result holds the faults of all models instead.
 */
export function chooseModels(
  given: GivenModel | readonly GivenModel[] | undefined,
  env: ModelEnv,
): { readonly models: Models } | { readonly faults: readonly RuntimeError[] } {
  const list = given === undefined ? [] : isList(given) ? given : [given]
  const faults: RuntimeError[] = []
  const usable = (make: () => Model): Model[] => {
    try {
      return [make()]
    } catch (error) {
      if (!(error instanceof RuntimeError)) throw error
      faults.push(error)
      return []
    }
  }
  const all =
    list.length > 0
      ? list.flatMap((each) => usable(() => asModel(each)))
      : namesIn(env.MODEL).flatMap((name) => usable(() => named(name, env)))
  if (faults.length > 0) return { faults }
  const [first] = all
  return first ? { models: listed(first, all) } : { faults: [unusable('MODEL is empty.')] }
}

function listed(first: Model, all: readonly Model[]): Models {
  return {
    default: first,
    all,
    get(id) {
      if (!id) return first
      const found =
        all.find((model) => model.id === id) ?? all.find((model) => model.id.endsWith(`/${id}`))
      if (found) return found
      const ids = all.map((model) => model.id).join(', ')
      throw new RuntimeError('MODEL_UNKNOWN', `There is no model "${id.slice(0, 100)}".`, {
        hint: `The models are ${ids}.`,
        details: { models: all.map((model) => model.id) },
      })
    },
  }
}

function namesIn(value = 'demo'): string[] {
  const names = value.split(',').map((name) => name.trim())
  return [...new Set(names.filter(Boolean))]
}

function named(name: string, { OPENAI_API_KEY, OPENAI_BASE_URL }: ModelEnv): Model {
  if (name === 'demo') return demoModel()
  const [, model] = /^openai\/(\S+)$/.exec(name) ?? []
  if (!model) throw unusable(`MODEL is "${name}", which is no model.`)
  // The address has a default: where it is undefined it was set to what is no address, and that fault says enough.
  if (!OPENAI_API_KEY && OPENAI_BASE_URL !== undefined && needsKey.test(OPENAI_BASE_URL))
    throw new RuntimeError('ENV_INVALID', `MODEL is "${name}", but OPENAI_API_KEY is not set.`, {
      hint: 'Set OPENAI_API_KEY, or set OPENAI_BASE_URL to a compatible endpoint that needs no key, or MODEL=demo.',
    })
  return new OpenAiModel({ name: model, apiKey: OPENAI_API_KEY, baseUrl: OPENAI_BASE_URL })
}

/** The address that needs a key. Another compatible endpoint may work without one. */
const needsKey = /^https?:\/\/api\.openai\.com(?=[/:]|$)/

function asModel(given: GivenModel): Model {
  if (isLangChainModel(given)) return new LangChainModel(given)
  if (typeof given?.id === 'string' && typeof given.stream === 'function') return given
  throw new RuntimeError('MODEL_UNUSABLE', 'What was given as a model has no id and stream().', {
    hint: 'Give a model of this runtime, a chat model of LangChain, or set MODEL.',
  })
}

function isList(given: GivenModel | readonly GivenModel[]): given is readonly GivenModel[] {
  return Array.isArray(given)
}

function unusable(message: string): RuntimeError {
  return new RuntimeError('ENV_INVALID', message, {
    hint: 'Set MODEL to demo, or to openai/<name> for a model behind any compatible endpoint.',
  })
}
