import type { IncomingMessage } from 'node:http'
import { RuntimeError } from '../../errors.ts'
import { type AllowedHost, isAllowedHost } from '../../manifest/allowed-hosts.ts'
import { fileTooLarge, mostFileBytes } from '../files/limits.ts'
import type { OutboundRequest } from '../outbound/request.ts'
import type { OutboundRules } from '../outbound/rules.ts'
import type { Budget } from './budget.ts'

/** What holds for the addresses that users attach. */
export interface WebRules {
  /** In development http at port 80 is taken as well, and `hosts` may name this machine. */
  readonly isForAuthors: boolean
  /** The hosts of ATTACHMENT_HOSTS: with any, no other host is asked. */
  readonly hosts: readonly AllowedHost[]
}

/** What a test has in place of the network. */
export type Edge = Omit<OutboundRequest, 'method' | 'headers' | 'body' | 'signal' | 'rules'>

/** What came from an address. */
export interface Fetched {
  readonly bytes: Buffer
  /** What the sender takes the bytes for. */
  readonly mediaType: string | undefined
  /** The end of the path, which is a name as good as any. */
  readonly name: string | undefined
}

/** How one attachment is fetched. */
export interface FetchTerms {
  /** What a refusal calls the attachment. */
  readonly as: string
  readonly budget: Budget
  readonly signal: AbortSignal
  readonly edge?: Edge
}

const mostRedirects = 3
const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])

/**
 * Fetches what a user attached by its address. Every address on the way is judged anew, by the socket that connects to it. All that
 * can go wrong on the way is told in the same words, for the user must not learn what there is inside the network.
 */
export async function fetchAttached(
  address: string,
  rules: WebRules,
  { as, budget, signal, edge }: FetchTerms,
): Promise<Fetched> {
  const { requestOutside } = await import('../outbound/request.ts')
  let url = new URL(address)
  for (let left = mostRedirects; ; left--) {
    const answer = await requestOutside(url, {
      method: 'GET',
      headers: { accept: '*/*', 'accept-encoding': 'identity', 'user-agent': 'oracle-runtime' },
      signal,
      rules: rulesFor(url, rules),
      ...edge,
    })
    try {
      const { statusCode = 0, headers } = answer
      if (redirects.has(statusCode) && headers.location !== undefined) {
        if (left === 0) throw new Error('The address redirects too often.')
        url = new URL(headers.location, url)
        continue
      }
      if (statusCode !== 200) throw new Error(`The address answered ${statusCode}.`)
      const bytes = await bodyOf(answer, as, budget)
      return { bytes, mediaType: headers['content-type'], name: nameIn(url) }
    } finally {
      answer.destroy()
    }
  }
}

/** The rules for one address. OUTBOUND_ALLOW is none of them: it says where the operator's own plugins may go, and users may not. */
function rulesFor(url: URL, { isForAuthors, hosts }: WebRules): OutboundRules[] {
  const isNamed = isAllowedHost(url, hosts)
  if (hosts.length > 0 && !isNamed) throw new Error('The host is not in ATTACHMENT_HOSTS.')
  const allowed = isForAuthors && isNamed ? hosts : []
  return [{ isForAuthors, allowed, refusesOwnMachine: true }]
}

async function bodyOf(answer: IncomingMessage, name: string, budget: Budget): Promise<Buffer> {
  if (Number(answer.headers['content-length'] ?? 0) > mostFileBytes) throw fileTooLarge(name)
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of answer) {
    bytes += piece.length
    budget.take(name, piece.length, bytes)
    pieces.push(piece)
  }
  if (!answer.complete) throw new Error('The answer broke off.')
  return Buffer.concat(pieces)
}

function nameIn({ pathname }: URL): string | undefined {
  const last = pathname.split('/').at(-1)
  if (!last) return undefined
  try {
    return decodeURIComponent(last)
  } catch {
    return last
  }
}

/** The one sentence about an attachment that could not be brought. */
export const unreachable = (name: string, cause?: unknown): RuntimeError =>
  new RuntimeError('ATTACHMENT_UNREACHABLE', `"${name}" could not be fetched.`, {
    hint: 'It has to be there, at a public https address, and to come within 15 s. Or send it with POST /files.',
    cause,
  })
