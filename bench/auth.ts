import { createPublicKey, randomBytes, verify } from 'node:crypto'
import { cpus } from 'node:os'
import { Auth } from '../core/runtime/auth/authenticate.ts'
import { Resolver } from '../core/runtime/auth/did/resolver.ts'
import { signerFromMnemonic } from '../core/runtime/auth/did/signer.ts'
import { createWallet } from '../core/testing/wallet.ts'
import { fan, forgedInvocation } from '../test/support/tokens.ts'

const roundCount = 7
const tokenCount = 300

const silent = { debug() {}, info() {}, warn() {}, error() {} }
const oracle = signerFromMnemonic('an oracle that only exists for measuring')

function freshAuth() {
  return new Auth({
    signer: oracle,
    oracleDid: oracle.did,
    maxTtlSeconds: 900,
    delegationOnly: true,
    resolver: new Resolver({ fetch }),
    revocations: { isRevoked: () => false },
    log: silent,
  })
}

function requestOf(invocation: string) {
  return { authorization: `Bearer ${invocation}`, authType: 'ucan', method: 'GET', path: '/' }
}

/** Microseconds of CPU for one run of `work`, over `times` runs. */
async function cpuOf(times: number, work: (index: number) => unknown): Promise<number> {
  const start = process.cpuUsage()
  for (let index = 0; index < times; index++) await work(index)
  const { user, system } = process.cpuUsage(start)
  return (user + system) / times
}

const median = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1]!

/**
 * Measures what authentication costs, beside its unavoidable part: an Ed25519 verification by node:crypto of a message
 * as long as the signed part of an invocation, measured in the same run.
 */
export async function benchAuth(print = console.log) {
  const user = await createWallet('a user who only exists for measuring')
  const tokens = await Promise.all(
    Array.from({ length: tokenCount }, (_, i) =>
      user.invoke({ audience: oracle.did, nonce: `n${i}` }).then(({ text }) => requestOf(text)),
    ),
  )
  const forged = await some(tokenCount, () => forgedInvocation(oracle.did))
  const hostile = await some(20, () => hostileProofs(6, 3))
  const largest = await some(20, () => hostileProofs(4, 2))

  const message = randomBytes(330)
  const signature = oracle.sign(message)
  const key = createPublicKey({
    key: Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), oracle.publicKey]),
    format: 'der',
    type: 'spki',
  })

  const times: Record<string, number[]> = {}
  const note = (name: string, value: number) => (times[name] ??= []).push(value)
  for (let round = 0; round < roundCount; round++) {
    note('bare', await cpuOf(tokenCount * 4, () => verify(null, message, key, signature)))
    const auth = freshAuth()
    note('uncached', await cpuOf(tokenCount, (i) => auth.authenticate(tokens[i]!)))
    note('cached', await cpuOf(tokenCount * 40, (i) => auth.authenticate(tokens[i % tokenCount]!)))
    const refused = (request: (typeof tokens)[number]) =>
      auth.authenticate(request).then(
        () => Promise.reject(new Error('a bad token was accepted')),
        () => undefined,
      )
    note('plain 401', await cpuOf(tokenCount, (i) => refused(forged[i]!)))
    note('hostile', await cpuOf(tokenCount, (i) => refused(hostile[i % hostile.length]!)))
    note('largest', await cpuOf(tokenCount, (i) => refused(largest[i % largest.length]!)))
  }

  const cost = Object.fromEntries(Object.entries(times).map(([name, all]) => [name, median(all)]))
  const line = (label: string, name: string, to: string, goal?: number) => {
    const ratio = cost[name]! / cost[to]!
    const verdict = goal && `(goal: at most ${goal}) ${ratio <= goal ? 'met' : 'MISSED'}`
    print(
      `${label.padEnd(44)} ${cost[name]!.toFixed(1).padStart(8)} µs  ${ratio.toFixed(2).padStart(6)} x ${to} ${verdict ?? ''}`,
    )
  }
  print(`Node ${process.version}, ${cpus().length} x ${cpus()[0]?.model ?? 'unknown processor'}`)
  print(
    `${'bare Ed25519 verification by node:crypto'.padEnd(44)} ${cost['bare']!.toFixed(1).padStart(8)} µs`,
  )
  line('an invocation seen for the first time', 'uncached', 'bare', 6)
  line('an invocation seen before', 'cached', 'bare', 0.1)
  line('a forged signature, the plain 401', 'plain 401', 'bare')
  line('10 kB of hostile proofs', 'hostile', 'plain 401', 2)
  line('hostile proofs that fit the bounds', 'largest', 'plain 401')
  return cost
}

function some(count: number, make: () => Promise<string>) {
  return Promise.all(Array.from({ length: count }, async () => requestOf(await make())))
}

async function hostileProofs(levels: number, width: number): Promise<string> {
  return (await fan(oracle.did, { levels, width, grants: 8 })).text
}

if (import.meta.main) await benchAuth()
