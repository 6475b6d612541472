import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { definePlugin, type Model } from '#core'
import { testApp, type TestApp } from '#core/testing'
import { createDevelopmentWallet } from '../../client/wallet.ts'

/** Turns whose answer calls a tool first, which makes three messages of them, and turns without: 500 messages together. */
const turns = { withCall: 40, all: 230 }
const picture = '![red](data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=)'

const look = definePlugin({
  name: 'looks',
  summary: 'Looks.',
  visibility: 'always',
  tools: {
    look: {
      description: 'Looks at something.',
      effect: 'read',
      foreign: false,
      input: z.object({ at: z.number() }),
      run: ({ at }) => `Number ${at} was seen.`,
    },
  },
})

/** An answer of 2 KB; three of them have a picture. */
const answerTo = (nth: number) =>
  `Answer ${nth}. ${'Some **words** of it, and `code`. '.repeat(60)}${nth % 80 === 1 ? picture : ''}`

/** A conversation of 500 messages with 40 calls of tools and three pictures, on a server of its own. */
export interface LongChat extends AsyncDisposable {
  readonly app: TestApp
  readonly sessionId: string
  /** The user's secret bytes, in base64. */
  readonly seed: string
}

/** Holds such a conversation with the server. What is said later is answered by `later`. */
export async function longChat(later: Model): Promise<LongChat> {
  const model: Model = {
    id: 'talker',
    async *stream(request) {
      const last = request.messages.at(-1)
      const said = request.messages.findLast(({ role }) => role === 'user')?.content
      const nth = Number(/^Question (\d+)/.exec(String(said))?.[1] ?? -1)
      if (nth < 0) yield* later.stream(request)
      else if (nth < turns.withCall && last?.role === 'user') {
        yield { type: 'text', text: `I look at ${nth}. ` }
        const args = JSON.stringify({ at: nth })
        yield { type: 'tool-call', index: 0, id: `call-${nth}`, name: 'look', args }
      } else yield { type: 'text', text: answerTo(nth) }
    },
  }
  const app = await testApp({
    plugins: [look],
    model,
    env: { RATE_LIMIT_PER_MINUTE: '100000', MODEL_CONTEXT_WINDOW: '10000000' },
  })
  const seed = randomBytes(32)
  const wallet = await createDevelopmentWallet({ seed: new Uint8Array(seed) })
  const post = async (path: string, body: object) => {
    const answer = await fetch(app.url + path, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${(await wallet.createInvocation(app.oracleDid)).serialized}`,
        'x-auth-type': 'ucan',
      },
      body: JSON.stringify(body),
    })
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    return answer.json()
  }
  const { sessionId } = z.object({ sessionId: z.string() }).parse(await post('/sessions', {}))
  for (let nth = 0; nth < turns.all; nth++)
    await post(`/messages/${sessionId}`, { message: `Question ${nth}?`, stream: false })
  return {
    app,
    sessionId,
    seed: seed.toString('base64'),
    [Symbol.asyncDispose]: () => app.close(),
  }
}
