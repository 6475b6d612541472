import { did, evaluated, protocols } from './protocols.ts'
import { claims, entities } from './twins.ts'

/** Calls the server with an API key; resolves to the JSON of a 2xx answer, and to undefined for a 409. */
export type Call = (
  method: 'GET' | 'POST' | 'PUT',
  path: string,
  body?: object,
  headers?: Record<string, string>,
) => Promise<any> // any: the example prints the answers and reads single members of them

/** Makes a `Call` that sends HTTP requests to a server. */
export const callTo =
  (address: string, apiKey: string): Call =>
  async (method, path, body, headers = {}) => {
    const response = await fetch(address + path, {
      method,
      headers: {
        authorization: `Bearer ${apiKey}`,
        ...(body && { 'content-type': 'application/json' }),
        ...headers,
      },
      body: body && JSON.stringify(body),
    })
    const answer: any = await response.json() // any: the example prints the answers and reads single members of them
    if (response.status === 409) return undefined
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${answer.message}`)
    return answer
  }

/** How often the example looks what became of a claim, and for how long. */
const look = { everyMs: 250, times: 400 }

/**
 * Fills a server with the example. Things that exist already stay, so the example can run twice. The first person makes twins
 * and claims; the second stands behind the rules by which the claims are evaluated without a hand, because nobody evaluates a
 * claim of their own. Without a second person the claims wait.
 */
export async function seed(
  call: Call,
  second: Call | undefined,
  say: (line: string) => void,
): Promise<void> {
  const declare = async (by: Call, all: Readonly<Record<string, object>>) => {
    for (const [name, protocol] of Object.entries(all))
      await by('POST', '/v1/protocols', {
        did: did(`protocol:${name}`),
        type: 'Protocol',
        ...protocol,
      })
    say(`protocols: ${Object.keys(all).join(', ')}`)
  }
  await declare(call, protocols)
  await declare(second ?? call, evaluated)
  for (const entity of entities) await call('POST', '/v1/entities', entity)
  say(`twins: ${entities.map((entity) => entity.did).join(', ')}`)

  const made = []
  for (const claim of claims) made.push(await claimed(call, claim))
  say(`claims: ${made.length}, which nobody has to look at`)
  for (const claim of made) say(await outcomeOf(call, claim))
}

/**
 * The claim as the server has it, submitted where it is not there. A server that was killed may have kept a claim and not
 * have said so: the example looks first, because nobody else makes these claims.
 */
async function claimed(call: Call, claim: (typeof claims)[number]) {
  const { type, subject } = claim
  const there = await call(
    'GET',
    `/v1/claims?${new URLSearchParams({ type, subject, limit: '1' })}`,
  )
  return there.items[0] ?? call('POST', '/v1/claims', claim)
}

/** Waits for what becomes of a claim, and says it in a line. */
async function outcomeOf(call: Call, { id, subject }: { id: string; subject: string }) {
  for (let times = 0; times < look.times; times++) {
    const claim = await call('GET', `/v1/claims/${id}`)
    const about = `claim ${id} of ${subject}: ${claim.status}`
    if (claim.review?.state === 'asked')
      return `${about}; it waits for a second person: ${claim.review.reason}`
    const how = `by ${claim.evaluation?.by ?? 'a person'}: ${claim.evaluation?.notes ?? ''}`
    if (claim.status === 'rejected') return `${about} ${how}`
    if (claim.creditFault) return `${about} ${how} No credit: ${claim.creditFault}`
    if (claim.credit) {
      const credit = await call('GET', `/v1/entities/${claim.credit}`)
      return `${about} ${how} Credit ${claim.credit}: ${credit.properties.tonnes} tCO2e`
    }
    if (claim.status === 'approved' && !subject.includes('stove')) return `${about} ${how}`
    await new Promise((resolve) => setTimeout(resolve, look.everyMs))
  }
  return `claim ${id} of ${subject}: still under way`
}
