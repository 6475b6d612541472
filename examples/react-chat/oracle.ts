/** How long the page waits before it asks again. */
const againMs = 2_000

/** What an oracle says of itself, as far as the page asks. */
interface Facts {
  readonly did: string
  /** There where the oracle takes calls. */
  readonly calls?: object
}

/** What the oracle at an address says of itself. Says so while nobody answers there, and goes on by itself once somebody does. */
export async function oracleAt(baseUrl: string): Promise<Facts> {
  const place = document.getElementById('root')!
  for (;;) {
    try {
      const facts: Facts = await (await fetch(`${baseUrl}/.well-known/oracle.json`)).json()
      place.role = null
      return facts
    } catch {
      place.role = 'status'
      place.textContent = `No oracle answers at ${baseUrl} yet. "npm start" starts one; this page goes on by itself.`
    }
    await new Promise((resolve) => setTimeout(resolve, againMs))
  }
}
