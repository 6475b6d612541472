import { createHash } from 'node:crypto'
import {
  type LedgerCoin,
  readAny,
  readCoin,
  type TypedBytes,
  types,
  writeAny,
  writeCoin,
} from './messages.ts'
import { type Bytes, bytes, message, NotProto, part, ProtoFields, text, uint } from './proto.ts'

/** What signs: a `LedgerKey`. */
interface TxKey {
  readonly publicKey: Uint8Array
  sign(bytes: Uint8Array): Uint8Array
}

/** What a transaction is made of. */
export interface NewTx {
  readonly messages: readonly TypedBytes[]
  readonly memo: string
  readonly fee: readonly LedgerCoin[]
  readonly gas: number
  readonly chainId: string
  readonly accountNumber: number
  readonly sequence: number
}

/** The bytes of a signed transaction, and its hash. */
export interface SignedTx {
  readonly bytes: Bytes
  readonly hash: string
}

/** Makes and signs a transaction. The same input makes the same bytes. */
export function signTx(tx: NewTx, key: TxKey): SignedTx {
  const { body, auth } = partsOf(tx, key.publicKey)
  const signature = key.sign(signDoc(body, auth, tx.chainId, tx.accountNumber))
  const signed = message(bytes(1, body), bytes(2, auth), part(3, signature))
  return { bytes: signed, hash: hashOf(signed) }
}

const direct = 1

function partsOf({ messages, memo, fee, gas, sequence }: NewTx, publicKey: Uint8Array) {
  const body = message(...messages.map((one) => part(1, writeAny(one))), text(2, memo))
  const signer = message(
    part(1, writeAny({ typeUrl: types.publicKey, value: bytes(1, publicKey) })),
    part(2, part(1, uint(1, direct))),
    uint(3, sequence),
  )
  const fees = message(...fee.map((coin) => part(1, writeCoin(coin))), uint(2, gas))
  return { body, auth: message(part(1, signer), part(2, fees)) }
}

/** What a signature covers. */
export const signDoc = (
  body: Uint8Array,
  auth: Uint8Array,
  chainId: string,
  accountNumber: number,
): Bytes => message(bytes(1, body), bytes(2, auth), text(3, chainId), uint(4, accountNumber))

/** The name by which the ledger finds a transaction. */
export const hashOf = (tx: Uint8Array): string =>
  createHash('sha256').update(tx).digest('hex').toUpperCase()

/** A transaction as it was read. */
export interface ReadTx {
  readonly messages: readonly TypedBytes[]
  readonly memo: string
  readonly body: Bytes
  readonly auth: Bytes
  readonly signatures: readonly Bytes[]
  readonly publicKey: Uint8Array
  readonly sequence: number
  readonly fee: readonly LedgerCoin[]
  readonly gas: number
}

/** Reads a transaction. Throws `NotProto` where the bytes are none. */
export function readTx(source: Uint8Array): ReadTx {
  const raw = new ProtoFields(source)
  const body = new ProtoFields(raw.bytes(1))
  const auth = new ProtoFields(raw.bytes(2))
  const signer = auth.part(1)
  const key = readAny(signer?.bytes(1) ?? new Uint8Array())
  const fee = auth.part(2)
  return {
    messages: body.all(1).map(readAny),
    memo: body.text(2),
    body: raw.bytes(1),
    auth: raw.bytes(2),
    signatures: raw.all(3),
    publicKey: key.typeUrl === types.publicKey ? new ProtoFields(key.value).bytes(1) : key.value,
    sequence: Number(signer?.uint(3) ?? 0n),
    fee: (fee?.all(1) ?? []).map(readCoin),
    gas: Number(fee?.uint(2) ?? 0n),
  }
}

/** The messages and the memo of a transaction's body alone. */
export function readBody(source: Uint8Array): Pick<ReadTx, 'messages' | 'memo'> {
  if (source.length === 0) throw new NotProto('The transaction has no body.')
  const body = new ProtoFields(source)
  return { messages: body.all(1).map(readAny), memo: body.text(2) }
}
