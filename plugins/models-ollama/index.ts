import { z } from 'zod'
import { definePlugin, type OfferSettings } from '#core'
import { addressFault } from './host.ts'

const env = {
  OLLAMA_HOST: z
    .string()
    .optional()
    .describe('Address of Ollama, or host and port; default http://127.0.0.1:11434'),
  OLLAMA_API_KEY: z
    .string()
    .optional()
    .meta({ secret: true, description: 'Key of Ollama, for a server that wants one' }),
}

/** Where a model is asked, and how the operator set it. */
function optionsOf(
  name: string,
  {
    env,
    settings,
    key,
  }: {
    readonly env: { readonly OLLAMA_HOST?: string; readonly OLLAMA_API_KEY?: string }
    readonly settings: OfferSettings
    readonly key?: string
  },
) {
  const { baseUrl, headers, contextWindow, reads } = settings
  const { attempts, connectMs, firstTokenMs, idleMs, stallMs } = settings
  return {
    id: `ollama/${name}`,
    name,
    host: baseUrl ?? env.OLLAMA_HOST,
    apiKey: key ?? env.OLLAMA_API_KEY,
    ...{ headers, contextWindow, reads },
    ...{ attempts, connectMs, firstTokenMs, idleMs, stallMs },
  }
}

export default definePlugin({
  name: 'models-ollama',
  summary: 'Models that Ollama runs, on this machine or another one.',
  visibility: 'silent',
  stability: 'stable',
  category: 'core',
  env,
  models: {
    ollama: {
      label: 'Ollama',
      free: true,
      fault(name, { env, settings: { baseUrl } }) {
        const hint = addressFault(baseUrl ?? env.OLLAMA_HOST)
        const setting = baseUrl === undefined ? 'OLLAMA_HOST' : `baseUrl of "ollama/${name}"`
        return hint === undefined
          ? undefined
          : { message: `${setting} is no http or https address.`, hint }
      },
      async open(name, ctx) {
        const { OllamaModel } = await import('./model.ts')
        return OllamaModel.open(optionsOf(name, ctx))
      },
      async list(signal, { env }) {
        const { listModels } = await import('./list.ts')
        return listModels({ host: env.OLLAMA_HOST, apiKey: env.OLLAMA_API_KEY }, signal)
      },
      async embed(name, ctx) {
        const { OllamaEmbedder } = await import('./embedder.ts')
        return OllamaEmbedder.open(optionsOf(name, ctx))
      },
    },
  },
})
