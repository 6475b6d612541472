import { builtView } from '#core'

/** Serves the view that `npm run build:view plugins/memory` has built. `/memory/:id` is a route, so the view stands beside it. */
export const serveView = builtView(
  '/memory-page/view.js',
  new URL('../built/view.js', import.meta.url),
)
