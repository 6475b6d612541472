import { afterEach, expect, test } from 'vitest'
import { killChildren, startChild } from '../../test/support/child.ts'

afterEach(killChildren)

/** What is loaded for keys, ledgers, contracts and signatures: all of it can wait until somebody pays. */
const packages = /@noble\/curves|@scure\/bip|grpc-js|viem|@x402/
const rooms = /payments\/(paying\/|ledger\/(?!bech32)|(development|contracts|x402)\/(?!tables))/

test.for([
  ['no price', {}],
  ['a price', { PAYMENTS_TURN_PRICE: '5000', PAYMENTS_FIRST_CREDIT: '10000' }],
] as const)(
  'with %s nothing of the ledger and of keys is loaded before it is used',
  async ([_, env]) => {
    const child = startChild('./importing-server.ts', [
      JSON.stringify({ NODE_ENV: 'test', LOG_LEVEL: 'silent', ...env }),
    ])
    const [before = '', after = ''] = await child.printed(2)
    // A source is read under its own name, or as a built file whose name may end in a hash.
    const found = (line: string) =>
      (JSON.parse(line) as string[])
        .filter((url) => packages.test(url) || rooms.test(url))
        .map((url) => /([^/]+?)(-[\w-]{8})?\.\w+$/.exec(url)?.[1])
    expect(JSON.parse(before)).toContainEqual(
      expect.stringMatching(/plugins\/payments\/accounts\/reading\.\w+$/),
    )
    expect(found(before)).toEqual([])
    // The look into the account on the ledger is what loads them.
    expect(found(after)).toEqual(expect.arrayContaining(['keys', 'ledger', 'secp256k1']))
  },
)
