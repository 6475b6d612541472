import { randomBytes } from 'node:crypto'
import { createWallet } from './wallet.ts'

// Calls a server as a new user: node examples/wallet/node.ts http://localhost:3000
const url = process.argv[2] ?? 'http://localhost:3000'
const wallet = await createWallet(new Uint8Array(randomBytes(32)))

const oracle = (await (await fetch(`${url}/.well-known/oracle.json`)).json()) as { did: string }
const invocation = await wallet.createInvocation(oracle.did)
const delegation = await wallet.createDelegation(oracle.did)

const response = await fetch(`${url}/user-preferences`, {
  headers: {
    authorization: `Bearer ${invocation.serialized}`,
    'x-auth-type': 'ucan',
    'x-ucan-delegation': delegation.serialized,
  },
})
console.log(wallet.did, response.status, await response.text())
