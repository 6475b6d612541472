import { z } from 'zod'
import { RuntimeError } from '#core'
import { type MessagingEnv, serverOf } from '../environment.ts'

/** An OpenID token, as a person's client gets it from its messaging server. */
export const openIdToken = z.object({
  access_token: z.string().min(1).max(2_000),
  matrix_server_name: z.string().min(1).max(255),
  token_type: z.string().max(100).optional(),
  expires_in: z.number().optional(),
})

const patienceMs = 10_000
const mostBytes = 4_096
const answer = z.object({ sub: z.string().regex(/^@[^\s:]{1,200}:[^\s]{1,255}$/) })

/** The account that a token is for, as its server says. Only servers of MESSAGING_OPENID_SERVERS are asked. */
export async function accountOfToken(
  given: z.output<typeof openIdToken>,
  env: MessagingEnv,
  fetch: typeof globalThis.fetch,
): Promise<string> {
  const server = given.matrix_server_name
  const address = addressOf(server, env)
  if (address === undefined)
    throw new RuntimeError(
      'SERVER_NOT_ALLOWED',
      `Tokens of ${server.slice(0, 100)} are not taken.`,
      {
        status: 403,
        hint: 'The operator names servers in MESSAGING_OPENID_SERVERS.',
      },
    )
  const url = new URL('/_matrix/federation/v1/openid/userinfo', address)
  url.searchParams.set('access_token', given.access_token)
  let body: unknown
  let status: number
  try {
    const response = await fetch(url, {
      redirect: 'error',
      signal: AbortSignal.timeout(patienceMs),
    })
    status = response.status
    body = await smallJson(response)
  } catch {
    // The address holds the token, so the error of the network is not passed on.
    throw new RuntimeError('UNAVAILABLE', `${server} did not answer.`, {
      hint: 'Try again in a moment.',
    })
  }
  const read = status === 200 ? answer.safeParse(body) : undefined
  if (!read?.success || serverOf(read.data.sub) !== server)
    throw new RuntimeError('OPENID_INVALID', 'The messaging server does not know this token.', {
      status: 401,
      hint: 'Get a new OpenID token.',
    })
  return read.data.sub
}

/** Where a server is asked; undefined where its tokens are not taken. */
function addressOf(server: string, env: MessagingEnv): string | undefined {
  const own = serverOf(env.MATRIX_ORACLE_ADMIN_USER_ID)
  for (const entry of env.MESSAGING_OPENID_SERVERS ?? [own]) {
    const at = entry.indexOf('=')
    const name = at < 0 ? entry : entry.slice(0, at)
    if (name !== server) continue
    if (at >= 0) return entry.slice(at + 1)
    return name === own ? env.MATRIX_BASE_URL : `https://${name}`
  }
  return undefined
}

async function smallJson(response: Response): Promise<unknown> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of response.body ?? []) {
    size += piece.length
    if (size > mostBytes) return undefined
    pieces.push(piece)
  }
  try {
    return JSON.parse(Buffer.concat(pieces).toString('utf8'))
  } catch {
    // What is no JSON is no answer of a messaging server.
    return undefined
  }
}
