import { createHmac, pbkdf2 } from 'node:crypto'
import { promisify } from 'node:util'
import { secp256k1 } from '@noble/curves/secp256k1'
import { LedgerKey } from './keys.ts'

const order = secp256k1.CURVE.n
const hardened = 0x80000000
/** m/44'/118'/0'/0/0, where wallets of Cosmos ledgers look first. */
const path = [44 + hardened, 118 + hardened, hardened, 0, 0]

/** The key of a mnemonic, as wallets of Cosmos ledgers derive it. The words are not looked up: other words are another key. */
export async function keyOfMnemonic(mnemonic: string): Promise<LedgerKey> {
  const words = mnemonic.trim().split(/\s+/).join(' ').normalize('NFKD')
  const seed = await promisify(pbkdf2)(words, 'mnemonic', 2048, 64, 'sha512')
  let { key, chain } = halves(hmac(Buffer.from('Bitcoin seed'), seed))
  for (const index of path) {
    const at = Buffer.alloc(4)
    at.writeUInt32BE(index)
    const from =
      index >= hardened ? Buffer.concat([Buffer.of(0), key]) : secp256k1.getPublicKey(key, true)
    const next = halves(hmac(chain, Buffer.concat([from, at])))
    const sum = (numberOf(next.key) + numberOf(key)) % order
    key = Buffer.from(sum.toString(16).padStart(64, '0'), 'hex')
    chain = next.chain
  }
  return new LedgerKey(key)
}

const hmac = (key: Uint8Array, data: Uint8Array): Buffer =>
  createHmac('sha512', key).update(data).digest()

const halves = (bytes: Buffer) => ({ key: bytes.subarray(0, 32), chain: bytes.subarray(32) })

const numberOf = (bytes: Uint8Array): bigint => BigInt(`0x${Buffer.from(bytes).toString('hex')}`)
