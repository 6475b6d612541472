import { z } from 'zod'
import { addressFault, definePlugin } from '#core'
import { usualAddress, variables } from './names.ts'

/** The key: where both variables are set, the provider's own programs take the first. */
const keyIn = (env: Readonly<Record<string, string | undefined>>): string | undefined =>
  env.GOOGLE_API_KEY ?? env.GEMINI_API_KEY

export default definePlugin({
  name: 'models-google',
  summary: 'Models of Google: conversations and vectors.',
  visibility: 'silent',
  stability: 'stable',
  category: 'core',

  env: {
    GOOGLE_API_KEY: z.string().optional().meta({ secret: true, description: 'Key of Google' }),
    GEMINI_API_KEY: z
      .string()
      .optional()
      .meta({ secret: true, description: 'Key of Google, where GOOGLE_API_KEY is not set' }),
    GOOGLE_BASE_URL: z.string().optional().describe(`Address of Google; default ${usualAddress}`),
  },

  models: {
    google: {
      label: 'Google',
      needs: [['GOOGLE_API_KEY', 'GEMINI_API_KEY']],
      prefixes: ['gemini-', 'gemma-'],
      fault: (_, { env, settings }) =>
        addressFault(settings.baseUrl ?? env.GOOGLE_BASE_URL ?? usualAddress, {
          setting: settings.baseUrl ? 'baseUrl' : variables.address,
          key: variables.key,
        }),
      async open(name, { env, settings, key }) {
        const { GenerateModel } = await import('./model.ts')
        return new GenerateModel({
          id: `google/${name}`,
          name,
          apiKey: key ?? keyIn(env),
          baseUrl: settings.baseUrl ?? env.GOOGLE_BASE_URL,
          settings,
        })
      },
      async list(signal, { env }) {
        const { listModels } = await import('./list.ts')
        return listModels({ apiKey: keyIn(env), baseUrl: env.GOOGLE_BASE_URL, signal })
      },
      async embed(name, { env, settings, key }) {
        const { GoogleEmbedder } = await import('./embedder.ts')
        return new GoogleEmbedder({
          id: `google/${name}`,
          name,
          apiKey: key ?? keyIn(env),
          baseUrl: settings.baseUrl ?? env.GOOGLE_BASE_URL,
          headers: settings.headers,
          attempts: settings.attempts,
        })
      },
    },
  },
})
