import { definePlugin } from '#core'
import { preparePage } from './built-page.ts'
import { servePage } from './serve-page.ts'

export default definePlugin({
  name: 'playground',
  version: '0.1.0',
  summary: 'A page to try everything that this oracle does, at /playground.',
  visibility: 'silent',
  stability: 'beta',
  category: 'ui',
  defaultState: 'development',

  setup({ pending, log }) {
    const page = preparePage(log)
    if (page.building)
      // The page answers meanwhile, in HTML and with words for a person, so it is not gated.
      pending(
        page.building,
        'The page is being built from its sources, which takes a few seconds',
        { gates: false },
      )
    return page
  },

  web: ({ self }) => ({ '/playground': servePage(self) }),
})
