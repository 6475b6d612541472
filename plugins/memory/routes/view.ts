import { builtView } from '#core'

/** Serves the view that `npm run build:view plugins/memory` has built. `/memory/:id` is a route, so the view stands beside it. */
export const serveView = builtView(
  '/memory-page/view.js',
  new URL('../built/view.js', import.meta.url),
)

/** Serves what the same build makes of `within.tsx`: a chat shows that, and need not fetch the whole view. */
export const serveWithin = builtView(
  '/memory-chat/within.js',
  new URL('../built/within.js', import.meta.url),
)
