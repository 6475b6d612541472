import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { complaintsOf, launch } from './browser.ts'
import { builtPage } from './built-page.ts'
import { startServer } from './process.ts'

/**
 * A page in a browser of its own, and a server that a script starts on a new folder, as somebody who has just cloned the project
 * starts it. Both are gone with the test. The page is empty: the test says where it goes. `modules` are those of plugins that it
 * has fetched since.
 */
export async function servedPage(
  program: string,
  script: string,
  env: Readonly<Record<string, string>> = {},
) {
  await builtPage()
  const folder = await mkdtemp(join(tmpdir(), 'served-page-'))
  const server = startServer(script, { DATA_DIR: folder, ...env })
  const browser = await launch(program)
  onTestFinished(async () => {
    await browser.close()
    await server.end()
    await rm(folder, { recursive: true, force: true })
  })
  const url = await server.url
  const context = await browser.newContext()
  context.setDefaultTimeout(30_000)
  const page = await context.newPage()
  const modules: string[] = []
  page.on('request', (request) => {
    const { pathname } = new URL(request.url())
    if (/\/(view|within)\.js$/.test(pathname)) modules.push(pathname)
  })
  return { server, url, page, modules, complaints: complaintsOf(page) }
}
