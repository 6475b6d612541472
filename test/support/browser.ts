import { chromium, type Browser, type Page, type Request } from 'playwright-core'

const quiet = [
  '--no-sandbox', // CI runs as root
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** A real Chromium without a window; `hosts` are names for this machine, to which no browser gives what it gives to localhost. */
export const launch = (executablePath: string, hosts: readonly string[] = []): Promise<Browser> =>
  chromium.launch({
    executablePath: executablePath.includes('/') ? executablePath : `/usr/bin/${executablePath}`,
    args: [...quiet, ...hosts.map((host) => `--host-resolver-rules=MAP ${host} 127.0.0.1`)],
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

/** The headers by which a request of the page says who its user is, for a question that a test asks as that user. */
export async function headersOf(request: Request): Promise<Record<string, string>> {
  const headers = await request.allHeaders()
  const names = ['authorization', 'x-auth-type', 'x-ucan-delegation']
  return Object.fromEntries(
    names.flatMap((name) => (headers[name] === undefined ? [] : [[name, headers[name]]])),
  )
}
