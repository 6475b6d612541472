import { createHash, randomBytes } from 'node:crypto'
import { createDevelopmentWallet } from '../../client/wallet.ts'
import { openStream, type Seen } from './event-stream.ts'

/** A user of a server in another process, with the wallet that the client package gives to developers. */
export interface Caller {
  readonly did: string
  /** The headers of one request: a fresh invocation, with a delegation beside it. */
  headers(): Promise<{
    readonly authorization: string
    readonly 'x-auth-type': string
    readonly 'x-ucan-delegation': string
  }>
}

/** Makes a user of the server at `url`. The same words give the same user; without words the user is a new one. */
export async function callerOf(url: string, words?: string): Promise<Caller> {
  const card = await (await fetch(`${url}/.well-known/oracle.json`)).json()
  const { did: oracleDid } = card as { did: string }
  const seed = words === undefined ? randomBytes(32) : createHash('sha256').update(words).digest()
  const wallet = await createDevelopmentWallet({ seed: new Uint8Array(seed) })
  return {
    did: wallet.initialWallet.did,
    async headers() {
      const [invocation, delegation] = await Promise.all([
        wallet.createInvocation(oracleDid),
        wallet.createDelegation(oracleDid),
      ])
      return {
        authorization: `Bearer ${invocation.serialized}`,
        'x-auth-type': 'ucan',
        'x-ucan-delegation': delegation.serialized,
      }
    },
  }
}

/** A turn as its stream told it. */
export interface Heard {
  /** What `done` said, or `cut off` where the stream ended without it. */
  readonly status: string
  /** The reply, put together. */
  readonly text: string
  /** The data of every event of a name. */
  of(event: string): Seen['data'][]
}

/** Says something in a new session and reads the turn to its end. */
export async function sayTo(
  url: string,
  headers: () => Promise<Readonly<Record<string, string>>>,
  message: string,
): Promise<Heard> {
  const made = await fetch(`${url}/sessions`, { method: 'POST', headers: await headers() })
  const { sessionId } = (await made.json()) as { sessionId: string }
  const turn = await openStream(`${url}/messages/${sessionId}`, await headers(), { message })
  if (turn.status !== 200) throw new Error(`The message was answered with ${turn.status}.`)
  const events = await turn.rest()
  const of = (name: string) => events.flatMap(({ event, data }) => (event === name ? [data] : []))
  return {
    status: of('done').at(-1)?.status ?? 'cut off',
    text: of('message')
      .map(({ content }) => content)
      .join(''),
    of,
  }
}
