import type { PluginBase } from '../../core/runtime/base/plugin-record.ts'

const none = (): never => {
  throw new Error('This server has no models.')
}

/** The models of a plugin on a server that has none. */
export const noModels: Pick<PluginBase, 'model' | 'models'> = {
  model: { id: 'none', stream: none, text: none, object: none },
  models: { get: none, embed: none },
}
