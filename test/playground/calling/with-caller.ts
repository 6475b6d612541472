import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, it } from 'vitest'
import { builtPage } from '../../support/built-page.ts'
import { describeWith, isCommand } from '../../support/services.ts'
import { launchCaller } from './calling-page.ts'

/** Tests in which somebody speaks on a page of Chromium: with a browser that may call this machine, and espeak-ng, which speaks. */
export const describeWithCaller = (
  name: string,
  tests: (browser: () => Browser) => void,
): Promise<unknown> =>
  describeWith('chromium', name, (program) => {
    if (!isCommand('espeak-ng') && !process.env.REQUIRE_ALL)
      return it.skip('needs espeak-ng: apt-get install espeak-ng', () => {})
    let browser: Browser
    beforeAll(async () => {
      await builtPage()
      browser = await launchCaller(program)
    }, 240_000)
    afterAll(() => browser?.close(), 60_000)
    tests(() => browser)
  })
