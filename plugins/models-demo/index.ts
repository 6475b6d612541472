import { definePlugin } from '#core'

export default definePlugin({
  name: 'models-demo',
  summary: 'The demonstration model, which answers without a key and without network.',
  visibility: 'silent',
  stability: 'stable',
  category: 'core',

  models: {
    demo: {
      label: 'Demonstration model (no key, no network)',
      standIn: true,
      free: true,
      async open() {
        const { demoModel } = await import('./demo-model.ts')
        return demoModel()
      },
    },
  },
})
