import { createApp, RuntimeError } from '#core'
import { bundled } from './plugins/index.ts'

// The composition root: which plugins, where to listen, when to stop.
try {
  const app = await createApp({ plugins: bundled })
  await app.listen()
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.once(signal, async () => {
      await app.close()
      process.exit(0)
    })
} catch (error) {
  // A boot fault says what is wrong and what to do; a stack trace would only hide that.
  console.error(
    error instanceof RuntimeError
      ? `\n${error.message}\n${error.hint ? `${error.hint}\n` : ''}`
      : error,
  )
  process.exit(1)
}
