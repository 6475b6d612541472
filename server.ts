import { enableCompileCache } from 'node:module'

enableCompileCache() // before anything is imported, so that the next start reads compiled code
const { defineApp } = await import('#core')
const { bundled } = await import('./plugins/index.ts')

/** The composition root: which plugins the app has. */
const app = defineApp({ plugins: bundled })
export default app

if (import.meta.main) await app.listen()
