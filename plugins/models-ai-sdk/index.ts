import { definePlugin } from '#core'
import { nameFault, packageFolder, sdkName } from './packages.ts'

export default definePlugin({
  name: 'models-ai-sdk',
  summary: 'Models of every package of the AI SDK that is installed beside the app.',
  visibility: 'silent',
  stability: 'stable',
  category: 'core',

  models: {
    'ai-sdk': {
      label: 'AI SDK',
      fault(name) {
        const named = sdkName(name)
        return named && packageFolder(named.package) ? undefined : nameFault(name)
      },
      async open(name, { settings, key }) {
        const { openModel } = await import('./open.ts')
        return openModel(name, { settings, key })
      },
      async embed(name, { settings, key }) {
        const { openEmbedder } = await import('./open.ts')
        return openEmbedder(name, { settings, key })
      },
    },
  },
})
