import { createHash } from 'node:crypto'
import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { createWallet } from '../../core/testing/wallet.ts'
import { oracleMnemonic, oracle, requestOf, testAuth } from '../support/auth.ts'
import { attacks, bearer } from '../support/tokens.ts'

const user = await createWallet()

/** Everything of an error that could be printed by somebody. */
const allOf = (error: unknown) =>
  error instanceof Error
    ? [inspect(error, { depth: 9, showHidden: true }), JSON.stringify(error), error.stack].join(
        '\n',
      )
    : inspect(error)

/** Pieces of a secret that nobody writes by chance. */
function piecesOf(secret: string): string[] {
  if (secret.length <= 32) return [secret]
  return Array.from({ length: Math.ceil(secret.length / 32) }, (_, i) =>
    secret.slice(i * 32, i * 32 + 32),
  ).filter((piece) => piece.length === 32 && new Set(piece).size > 8)
}

test('no secret of the whole attack suite stands in a log line or an error', async () => {
  const { auth, lines } = testAuth()
  const said: string[] = []
  const secrets: string[] = [oracleMnemonic]
  const list = await attacks(oracle.did, user)

  for (const { headers } of list) {
    for (const header of [headers.authorization, headers['x-ucan-delegation']]) {
      const text = header?.replace(/^\w+ /, '') ?? ''
      if (text.length < 24) continue
      secrets.push(text, Buffer.from(text, 'base64').toString('hex'))
      await auth
        .verifyDelegation(text, { issuer: user.did })
        .catch((error: unknown) => said.push(allOf(error)))
    }
    await auth.authenticate(requestOf(headers)).catch((error: unknown) => said.push(allOf(error)))
  }
  const good = await user.invoke({ audience: oracle.did })
  const delegation = await user.delegate({ audience: oracle.did })
  secrets.push(good.text, delegation.text)
  const caller = await auth.authenticate(requestOf(bearer(good.text, delegation.text)))
  said.push(inspect(caller, { depth: 9, showHidden: true }))

  const seed = createHash('sha256').update(oracleMnemonic).digest()
  secrets.push(seed.toString('hex'), seed.toString('base64'))
  said.push(inspect(oracle, { depth: 9, showHidden: true }), JSON.stringify(oracle))
  said.push(inspect(auth, { depth: 9, showHidden: true }), JSON.stringify(auth.stats()))

  expect(lines.length).toBeGreaterThan(list.length)
  expect(said.length).toBeGreaterThan(list.length)
  const everything = [...lines, ...said].join('\n')
  const pieces = secrets.flatMap(piecesOf)
  expect(pieces.length).toBeGreaterThan(1000)
  for (const piece of pieces) expect(everything.includes(piece), piece).toBe(false)
})
