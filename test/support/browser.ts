import { chromium, type Browser, type Page } from 'playwright-core'

const quiet = [
  '--no-sandbox', // CI runs as root
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** A real Chromium without a window. */
export const launch = (executablePath: string): Promise<Browser> =>
  chromium.launch({
    executablePath: executablePath.includes('/') ? executablePath : `/usr/bin/${executablePath}`,
    args: quiet,
  })

/** Everything that the page reported as an error. */
export function complaintsOf(page: Page): string[] {
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
  })
  return complaints
}
