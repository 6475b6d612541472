import { spawn } from 'node:child_process'
import { flushCompileCache } from 'node:module'
import { networkAddresses, openToNetwork } from './lan.ts'
import { RuntimeError } from '../core/errors.ts'
import type { ListenOptions, StartingApp } from '../core/runtime/app.ts'

/**
 * Starts an app as the whole purpose of its process: a fault of the boot is printed with what to do, and ends the
 * process with 1. Where the app has a page to try it in, its address is printed; `--open` opens the page.
 */
export async function runApp(start: () => StartingApp, options?: ListenOptions) {
  try {
    const isLan = process.argv.includes('--lan')
    if (isLan) openToNetwork()
    const app = start()
    const address = await app.listen(options)
    // Node itself writes the cache at the end, and a server that is killed has none. What turns need is imported later.
    flushCompileCache()
    setTimeout(flushCompileCache, 10_000).unref()
    const { plugins } = (await app).report
    const page = plugins.find(({ name }) => name === 'playground')
    if (page && page.state !== 'disabled') {
      console.log(`\n  Open ${address.url}/playground\n`)
      if (isLan) tellNetwork(address.port)
      if (process.argv.includes('--open')) openInBrowser(`${address.url}/playground`)
    }
    return address
  } catch (error) {
    return fail(error)
  }
}

function tellNetwork(port: number): void {
  for (const url of networkAddresses(port)) console.log(`  In this network: ${url}/playground`)
  console.log('  Plain HTTP: whoever is between two machines of the network can read along.\n')
}

/** By the command that this system opens addresses with; where there is none, the printed line says where to go. */
function openInBrowser(address: string): void {
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
