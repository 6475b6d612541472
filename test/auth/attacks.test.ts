import { describe, expect, test } from 'vitest'
import { RuntimeError } from '../../core/errors.ts'
import { createWallet } from '../../core/testing/wallet.ts'
import { oracleMnemonic, oracle, requestOf, testAuth } from '../support/auth.ts'
import { attacks, bearer } from '../support/tokens.ts'

const user = await createWallet()
const list = await attacks(oracle.did, user)

describe('what must never authenticate', () => {
  test.each(list)('$name is refused: $reason', async ({ headers, reason }) => {
    const { auth, lines } = testAuth()
    const error = await auth.authenticate(requestOf(headers)).then(
      () => expect.fail('it authenticated'),
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(RuntimeError)
    expect(error).toMatchObject({
      code: 'UNAUTHORIZED',
      status: 401,
      message: 'No valid credential came with the request.',
      headers: {
        'WWW-Authenticate': 'Bearer realm="oracle", error="invalid_token"',
        'Cache-Control': 'no-store',
      },
    })
    expect(error).not.toHaveProperty('cause')
    expect(lines).toEqual([JSON.stringify(['info', { reason }, 'a credential was refused'])])
  })

  test('the token that all of them were made from is accepted', async () => {
    const { auth } = testAuth()
    const good = await user.invoke({ audience: oracle.did })
    expect((await auth.authenticate(requestOf(bearer(good.text)))).did).toBe(user.did)
  })
})
