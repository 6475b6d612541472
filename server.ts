import { enableCompileCache } from 'node:module'

enableCompileCache() // before anything is imported, so that the next start reads compiled code
const { createApp, RuntimeError } = await import('#core')
const { bundled } = await import('./plugins/index.ts')

// The composition root: which plugins, where to listen, when to stop.
const app = createApp({ plugins: bundled })
let stopping = false
for (const signal of ['SIGTERM', 'SIGINT'] as const)
  process.on(signal, () => {
    if (stopping) process.exit(1) // a second one means now
    stopping = true
    app.close().then(() => process.exit(0), fail)
  })
process.on('SIGHUP', () => void app.then((running) => running.reload()).catch(fail))

try {
  await app.listen()
} catch (error) {
  fail(error)
}

/** A fault of the boot says what is wrong and what to do; a stack trace would only hide that. */
function fail(error: unknown): never {
  const known = error instanceof RuntimeError
  console.error(known ? `\n${error.message}\n${error.hint ? `${error.hint}\n` : ''}` : error)
  process.exit(1)
}
