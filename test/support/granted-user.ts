import { say } from '../../core/testing/turn.ts'
import { createWallet } from '../../core/testing/wallet.ts'
import type { TestApp, TestUser } from '#core/testing'

/** A user whose delegation grants calling, and on the user's own DID only these abilities. */
export async function grantedUser(app: TestApp, abilities: readonly string[]) {
  const wallet = await createWallet()
  const audience = app.oracleDid
  const credentials = async () => {
    const invocation = await wallet.invoke({ audience })
    const delegation = await wallet.delegate({
      audience,
      capabilities: [
        { can: '*', with: 'ixo:oracle' },
        ...abilities.map((can) => ({ can, with: wallet.did })),
      ],
    })
    return {
      authorization: `Bearer ${invocation.text}`,
      'x-auth-type': 'ucan',
      'x-ucan-delegation': delegation.text,
    }
  }
  return {
    did: wallet.did,
    say: (message: string, sessionId?: string) => say(app.url, credentials, message, { sessionId }),
  }
}

/** A user whom the operator has granted rights on the oracle's DID: `registry/*`, `sampling/read`. */
export async function userWith(app: TestApp, ...rights: string[]): Promise<TestUser> {
  const user = await app.user()
  await user.granted(...rights)
  return user
}
