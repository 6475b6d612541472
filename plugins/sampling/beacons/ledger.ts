import { z } from 'zod'
import { RuntimeError } from '#core'
import { askJson, type Fetch } from './addresses.ts'
import type { LedgerEvidence } from './published.ts'

const height = z
  .union([z.string().regex(/^[1-9]\d{0,15}$/), z.number().int().positive()])
  .transform(Number)

/** A block as the REST interface of a Cosmos ledger answers it; the hash is base64, or hexadecimal in older versions. */
const blockSchema = z.object({
  block_id: z.object({ hash: z.string().min(1).max(200) }),
  block: z.object({
    header: z.object({ chain_id: z.string().min(1).max(100), height, time: z.string().max(100) }),
  }),
})

/** The ledger whose blocks draws may take their value from: the REST addresses of its nodes, asked one after the other. */
export class Ledger {
  readonly #fetch: Fetch
  readonly #urls: readonly string[]

  constructor(fetch: Fetch, urls: readonly string[]) {
    this.#fetch = fetch
    this.#urls = urls
  }

  /** Whether the operator has configured a ledger. */
  get isConfigured(): boolean {
    return this.#urls.length > 0
  }

  /** The newest block. */
  latest(signal: AbortSignal): Promise<LedgerEvidence> {
    return this.#block('latest', signal)
  }

  /** The block at a height. */
  at(height: number, signal: AbortSignal): Promise<LedgerEvidence> {
    return this.#block(String(height), signal)
  }

  async #block(which: string, signal: AbortSignal): Promise<LedgerEvidence> {
    const failures: unknown[] = []
    for (const url of this.#urls)
      try {
        const path = `cosmos/base/tendermint/v1beta1/blocks/${which}`
        const { block_id, block } = blockSchema.parse(await askJson(this.#fetch, url, path, signal))
        const { chain_id, height, time } = block.header
        if (which !== 'latest' && which !== String(height))
          throw new Error(`the block ${height} came instead of ${which}`)
        return { chainId: chain_id, height, blockHash: hexOf(block_id.hash), time }
      } catch (error) {
        signal.throwIfAborted()
        failures.push(error)
      }
    throw new RuntimeError('UPSTREAM_FAILED', `The ledger did not give its block ${which}.`, {
      hint: 'Try again later; LEDGER_URL names the nodes that are asked.',
      cause: new AggregateError(failures),
    })
  }
}

function hexOf(hash: string): string {
  const hex = /^[0-9a-f]{64}$/i.test(hash) ? hash : Buffer.from(hash, 'base64').toString('hex')
  if (!/^[0-9a-f]{64}$/i.test(hex)) throw new Error(`the hash of the block is ${hash.slice(0, 80)}`)
  return hex.toLowerCase()
}
