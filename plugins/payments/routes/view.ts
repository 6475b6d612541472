import { builtView } from '#core'

/** Serves the view that `npm run build:view plugins/payments` has built. */
export const serveView = builtView(
  '/payments/view.js',
  new URL('../built/view.js', import.meta.url),
)

/** Serves what the same build makes of `within.tsx`: a chat shows that, and need not fetch the whole view. */
export const serveWithin = builtView(
  '/payments-chat/within.js',
  new URL('../built/within.js', import.meta.url),
)
