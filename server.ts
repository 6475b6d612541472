import { spawn } from 'node:child_process'
import { enableCompileCache, flushCompileCache } from 'node:module'

enableCompileCache() // before anything is imported, so that the next start reads compiled code
const { createApp, RuntimeError } = await import('#core')
const { bundled } = await import('./plugins/index.ts')

// The composition root: which plugins, and where to listen.
const app = createApp({ plugins: bundled })

try {
  const { url } = await app.listen()
  // Node itself writes the cache at the end, and a server that is killed has none. What turns need is imported later.
  flushCompileCache()
  setTimeout(flushCompileCache, 10_000).unref()
  const { plugins } = (await app).report
  const page = plugins.find(({ name }) => name === 'playground')
  if (page && page.state !== 'disabled') {
    console.log(`\n  Open ${url}/playground\n`)
    if (process.argv.includes('--open')) openInBrowser(`${url}/playground`)
  }
} catch (error) {
  fail(error)
}

/** By the command that this system opens addresses with; where there is none, the line above does. */
function openInBrowser(address: string) {
  const commands: Partial<Record<NodeJS.Platform, string>> = { darwin: 'open', win32: 'explorer' }
  const opener = spawn(commands[process.platform] ?? 'xdg-open', [address], {
    stdio: 'ignore',
    detached: true,
  })
  opener.on('error', () => console.log('  No browser could be opened from here.'))
  opener.unref()
}

/** A fault of the boot says what is wrong and what to do; a stack trace would only hide that. */
function fail(error: unknown): never {
  const known = error instanceof RuntimeError
  console.error(known ? `\n${error.message}\n${error.hint ? `${error.hint}\n` : ''}` : error)
  process.exit(1)
}
