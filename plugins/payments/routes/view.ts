import { builtView } from '#core'

/** Serves the view that `npm run build:view plugins/payments` has built. */
export const serveView = builtView(
  '/payments/view.js',
  new URL('../built/view.js', import.meta.url),
)
