import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { root } from './process.ts'

/**
 * Before the first test: the packages that `npm start` has prebuilt behind its back, without which tests are slower, no more.
 * In CI the page as well, which every server builds that finds none.
 */
export default async function prebuild(): Promise<void> {
  await promisify(execFile)(process.execPath, ['scripts/prebuild.ts'], { cwd: root }).catch(
    (error: unknown) => console.warn('The packages could not be prebuilt:', error),
  )
  if (process.env.CI) await (await import('./built-page.ts')).builtPage()
}
