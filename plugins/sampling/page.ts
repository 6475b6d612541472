import { builtView } from '#core'

const module = '/sampling-page/view.js'

/** Serves the view that `npm run build:view plugins/sampling` has built. */
export const web = {
  '/sampling-page': builtView(module, new URL('./built/view.js', import.meta.url)),
}

/** The part of the playground that the plugin brings. */
export const views = {
  sampling: {
    label: { en: 'Sampling', sw: 'Sampuli', fr: 'Échantillon' },
    module,
    order: 30,
  },
} as const
