import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setPriority } from 'node:os'
import { fileURLToPath } from 'node:url'
import { stripVTControlCharacters } from 'node:util'

/** A build takes some seconds, and a minute on a machine that is very busy. */
const longestMs = 300_000

type Folders = Readonly<Record<'sources' | 'directory', string>>

/**
 * Builds the page in a process of its own: the builder takes hundreds of megabytes, which a server would keep, and processor
 * time, of which those who talk to the server come first.
 */
export async function buildPageApart({ sources, directory }: Folders): Promise<void> {
  const builder = fork(fileURLToPath(import.meta.url), [sources, directory], {
    ...{ stdio: ['ignore', 'ignore', 'pipe', 'ipc'], timeout: longestMs, killSignal: 'SIGKILL' },
  })
  try {
    if (builder.pid !== undefined) setPriority(builder.pid, 5)
  } catch {
    // It is over already, or the system knows no priorities.
  }
  // The server may end meanwhile, and the builder ends with it.
  builder.unref()
  builder.channel?.unref()
  let said = ''
  builder.stderr
    ?.setEncoding('utf8')
    .on('data', (text: string) => (said = (said + text).slice(-4_000)))
  const [code, signal] = (await once(builder, 'close')) as [number | null, string | null]
  if (code === 0) return
  const fault = stripVTControlCharacters(said).trim() // The builder colours what it says.
  throw new Error(fault || `its builder ended with ${code ?? signal}`)
}

if (process.send && process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , sources = '', directory = ''] = process.argv
  // Its parent is gone: nobody waits for the page.
  process.once('disconnect', () => process.exit(1))
  const { buildPage } = await import('./build-page.ts')
  try {
    await buildPage({ sources, directory })
    process.exit(0)
  } catch (error) {
    console.error((error as Error).message)
    process.exit(1)
  }
}
