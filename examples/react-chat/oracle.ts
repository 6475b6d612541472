/** How long the page waits before it asks again. */
const againMs = 2_000

/** The DID of the oracle at an address. Says so while nobody answers there, and goes on by itself once somebody does. */
export async function oracleAt(baseUrl: string, place: HTMLElement): Promise<string> {
  for (;;) {
    try {
      const { did } = await (await fetch(`${baseUrl}/.well-known/oracle.json`)).json()
      return did
    } catch {
      place.textContent = `No oracle answers at ${baseUrl} yet. "npm start" starts one; this page goes on by itself.`
      place.role = 'status'
    }
    await new Promise((resolve) => setTimeout(resolve, againMs))
  }
}
