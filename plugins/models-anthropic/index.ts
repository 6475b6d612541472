import { z } from 'zod'
import { addressFault, definePlugin } from '#core'
import { usualAddress, variables } from './names.ts'

export default definePlugin({
  name: 'models-anthropic',
  summary: 'Models of Anthropic, and of every server that speaks Messages.',
  visibility: 'silent',
  stability: 'stable',
  category: 'core',

  env: {
    ANTHROPIC_API_KEY: z
      .string()
      .optional()
      .meta({ secret: true, description: 'Key of Anthropic' }),
    ANTHROPIC_BASE_URL: z
      .string()
      .optional()
      .describe(`Address of Anthropic; default ${usualAddress}`),
  },

  models: {
    anthropic: {
      label: 'Anthropic',
      needs: [variables.key],
      prefixes: ['claude-'],
      fault: (_, { env, settings }) =>
        addressFault(settings.baseUrl ?? env.ANTHROPIC_BASE_URL ?? usualAddress, {
          setting: settings.baseUrl ? 'baseUrl' : variables.address,
          key: variables.key,
        }),
      async open(name, { env, settings, key }) {
        const { MessagesModel } = await import('./model.ts')
        return new MessagesModel({
          id: `anthropic/${name}`,
          name,
          apiKey: key ?? env.ANTHROPIC_API_KEY,
          baseUrl: settings.baseUrl ?? env.ANTHROPIC_BASE_URL,
          settings,
        })
      },
      async list(signal, { env }) {
        const { listModels } = await import('./list.ts')
        const { ANTHROPIC_API_KEY: apiKey, ANTHROPIC_BASE_URL: baseUrl } = env
        return listModels({ apiKey, baseUrl, signal })
      },
    },
  },
})
